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

    def __init__(self, backend: ArrayArithmetic) -> None:
        """Take the arithmetic of the arrays."""
        self.name, self._backend = backend.name, backend

    def tracer(self, scene: RenderScene) -> VectorTracer:
        """Return a tracer that follows many paths at once."""
        return VectorTracer(self._backend, scene)

    def roots(self, squares: Sequence[int]) -> list[int]:
        """Return roots by the method that scales vectors."""
        return [int(root) for root in self._backend.take(self._backend.root(self._backend.put(squares)))]

    def quotients(self, values: Sequence[int], divisors: Sequence[int]) -> list[int]:
        """Return quotients by the method that finds distances to planes."""
        return [int(value) for value in self._backend.take(self._backend.put(values) // self._backend.put(divisors))]


class ReferenceTracer:
    """A tracer of one pixel at a time, in Python's integers."""

    def __init__(self, scene: RenderScene) -> None:
        """Take the scene."""
        self._scene = scene

    def sums(self, columns: Int64Array, rows: Int64Array) -> Int64Array:
        """Sum the paths of each pixel. See `PixelTracer`."""
        row_sums = [pixel_sums(self._scene, int(column), int(row)) for column, row in zip(columns, rows, strict=True)]
        return np.array(row_sums, dtype=np.int64).reshape(-1, 3)


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


def shown(sums: Int64Array, sample_count: int) -> bytes:
    """Return red, green and blue of the picture's pixels: `byte_of` applied to the mean of each pixel's paths."""
    backend = NumpyArrays()
    shown_light = backend.lesser(sums // sample_count, WHITE) * (2 * 255) ** 2 >> LIGHT_BITS
    return bytes((backend.root(shown_light) + 1 >> 1).astype(np.uint8).tobytes())


def backend_named(backend_name: str) -> TileBackend:
    """Return the backend `numpy`, `reference`, or `torch-` with a device.

    Raise LookupError for another name or an unusable device, and ImportError without PyTorch.
    """
    return chosen(backend_name, _numpy, ReferenceBackend, _torch)


def _numpy() -> TileBackend:
    return VectorBackend(NumpyArrays())


def _torch() -> ByDevice[TileBackend]:
    from gpu_tasks.workloads.torch_backends import TorchArrays  # noqa: PLC0415 (optional)

    return lambda device: VectorBackend(TorchArrays(device))
