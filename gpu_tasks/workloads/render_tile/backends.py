"""The backends by name: the reference, pixel by pixel, and arrays of NumPy or PyTorch, many paths at once."""

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
        """Return int64[n, 3]: red, green and blue, summed over all paths of each pixel, in units of 2**-16."""
        ...


class TileBackend(Protocol):
    """A renderer of scenes that also exposes its roots and quotients to the conformance vectors."""

    name: str

    def tracer(self, scene: RenderScene) -> PixelTracer:
        """Return a tracer of the scene's paths."""
        ...

    def roots(self, squares: Sequence[int]) -> list[int]:
        """Return the roots of integers from 0 to 2**62, rounded down."""
        ...

    def quotients(self, values: Sequence[int], divisors: Sequence[int]) -> list[int]:
        """Return the quotients, rounded towards minus infinity."""
        ...


class VectorBackend:
    """A backend in arrays. Implements `TileBackend`."""

    def __init__(self, use: ArrayArithmetic) -> None:
        """Take the arithmetic of the arrays."""
        self.name, self._use = use.name, use

    def tracer(self, scene: RenderScene) -> VectorTracer:
        """Return a tracer that follows many paths at once."""
        return VectorTracer(self._use, scene)

    def roots(self, squares: Sequence[int]) -> list[int]:
        """Return roots by the method that scales vectors."""
        return [int(root) for root in self._use.take(self._use.root(self._use.put(squares)))]

    def quotients(self, values: Sequence[int], divisors: Sequence[int]) -> list[int]:
        """Return quotients by the method that finds distances to planes."""
        return [int(value) for value in self._use.take(self._use.put(values) // self._use.put(divisors))]


class ReferenceTracer:
    """A tracer of one pixel at a time, in Python's integers."""

    def __init__(self, scene: RenderScene) -> None:
        """Take the scene."""
        self._scene = scene

    def sums(self, columns: Int64Array, rows: Int64Array) -> Int64Array:
        """Sum the paths of each pixel. See `PixelTracer`."""
        sums = [pixel_sums(self._scene, int(column), int(row)) for column, row in zip(columns, rows, strict=True)]
        return np.array(sums, dtype=np.int64).reshape(-1, 3)


class ReferenceBackend:
    """A backend in Python's integers: slow, and correct by inspection. Implements `TileBackend`."""

    name = "reference"

    def tracer(self, scene: RenderScene) -> ReferenceTracer:
        """Return a tracer of one pixel at a time."""
        return ReferenceTracer(scene)

    def roots(self, squares: Sequence[int]) -> list[int]:
        """Return roots by Python's `isqrt`."""
        return [isqrt(square) for square in squares]

    def quotients(self, values: Sequence[int], divisors: Sequence[int]) -> list[int]:
        """Return quotients by Python's `//`."""
        return [value // divisor for value, divisor in zip(values, divisors, strict=True)]


def shown(sums: Int64Array, samples: int) -> bytes:
    """Return red, green and blue of the picture's pixels: `byte_of` applied to the mean of each pixel's paths."""
    use = NumpyArrays()
    light = use.lesser(sums // samples, WHITE) * (2 * 255) ** 2 >> LIGHT_BITS
    return bytes((use.root(light) + 1 >> 1).astype(np.uint8).tobytes())


def backend_named(backend: str) -> TileBackend:
    """Return the backend `numpy`, `reference`, or `torch-` with a device.

    Raise LookupError for another name or an unusable device, and ImportError without PyTorch.
    """
    return chosen(backend, _numpy, ReferenceBackend, _torch)


def _numpy() -> TileBackend:
    return VectorBackend(NumpyArrays())


def _torch() -> ByDevice[TileBackend]:
    from gpu_tasks.workloads.torch_backends import TorchArrays  # noqa: PLC0415 (optional)

    return lambda device: VectorBackend(TorchArrays(device))
