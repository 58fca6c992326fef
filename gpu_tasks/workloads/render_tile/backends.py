"""Which backends there are: the reference, pixel by pixel, and arrays of NumPy or PyTorch, many paths at once."""

from collections.abc import Sequence
from math import isqrt
from typing import Protocol

import numpy as np

from gpu_tasks.workloads.backend_choice import ByDevice, chosen
from gpu_tasks.workloads.render_tile.array_arithmetic import ArrayArithmetic, Int64Array, NumpyArrays
from gpu_tasks.workloads.render_tile.fixed_point import LIGHT_BITS, WHITE
from gpu_tasks.workloads.render_tile.reference import pixel_sums
from gpu_tasks.workloads.render_tile.scene import RenderScene
from gpu_tasks.workloads.render_tile.vector_tracing import VectorTracer


class PixelTracer(Protocol):
    """One scene on one backend."""

    def sums(self, columns: Int64Array, rows: Int64Array) -> Int64Array:
        """int64[n, 3]: red, green and blue of all paths of each pixel together, in units of 2**-16."""
        ...


class TileBackend(Protocol):
    """What renders scenes, and shows how it takes roots and quotients."""

    name: str

    def tracer(self, scene: RenderScene) -> PixelTracer:
        """What follows the paths of a scene."""
        ...

    def roots(self, squares: Sequence[int]) -> list[int]:
        """Rounded down, of integers from 0 to 2**62."""
        ...

    def quotients(self, values: Sequence[int], divisors: Sequence[int]) -> list[int]:
        """Rounded towards minus infinity."""
        ...


class VectorBackend:
    """Implements `TileBackend` by arrays."""

    def __init__(self, use: ArrayArithmetic) -> None:
        """On this arithmetic."""
        self.name, self._use = use.name, use

    def tracer(self, scene: RenderScene) -> VectorTracer:
        """Many paths at once."""
        return VectorTracer(self._use, scene)

    def roots(self, squares: Sequence[int]) -> list[int]:
        """As vectors are scaled."""
        return [int(root) for root in self._use.take(self._use.root(self._use.put(squares)))]

    def quotients(self, values: Sequence[int], divisors: Sequence[int]) -> list[int]:
        """As distances to planes are found."""
        return [int(value) for value in self._use.take(self._use.put(values) // self._use.put(divisors))]


class ReferenceTracer:
    """A pixel at a time, in Python's integers."""

    def __init__(self, scene: RenderScene) -> None:
        """Of this scene."""
        self._scene = scene

    def sums(self, columns: Int64Array, rows: Int64Array) -> Int64Array:
        """See `PixelTracer`."""
        sums = [pixel_sums(self._scene, int(column), int(row)) for column, row in zip(columns, rows, strict=True)]
        return np.array(sums, dtype=np.int64).reshape(-1, 3)


class ReferenceBackend:
    """Implements `TileBackend` in Python's integers: slow, and right by inspection."""

    name = "reference"

    def tracer(self, scene: RenderScene) -> ReferenceTracer:
        """A pixel at a time."""
        return ReferenceTracer(scene)

    def roots(self, squares: Sequence[int]) -> list[int]:
        """Python's own."""
        return [isqrt(square) for square in squares]

    def quotients(self, values: Sequence[int], divisors: Sequence[int]) -> list[int]:
        """Python's own."""
        return [value // divisor for value, divisor in zip(values, divisors, strict=True)]


def shown(sums: Int64Array, samples: int) -> bytes:
    """Red, green and blue as a picture shows them, pixel by pixel: as `byte_of`, of the mean of a pixel's paths."""
    use = NumpyArrays()
    light = use.lesser(sums // samples, WHITE) * (2 * 255) ** 2 >> LIGHT_BITS
    return bytes((use.root(light) + 1 >> 1).astype(np.uint8).tobytes())


def backend_named(backend: str) -> TileBackend:
    """The backend `numpy`, `reference`, or `torch-` with a device. LookupError, ImportError without PyTorch."""
    return chosen(backend, _numpy, ReferenceBackend, _torch)


def _numpy() -> TileBackend:
    return VectorBackend(NumpyArrays())


def _torch() -> ByDevice[TileBackend]:
    from gpu_tasks.workloads.torch_backends import TorchArrays  # noqa: PLC0415 (optional)

    return lambda device: VectorBackend(TorchArrays(device))
