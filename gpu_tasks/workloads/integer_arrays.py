"""Arrays of integers for workloads: the operations of a backend, and the reference in int64 NumPy.

Each workload adds its own operations and limits the size of their results.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
BackendArray = Any  # The array type of a backend, always of integers


class IntegerBackend(Protocol):
    """A backend: arrays with `+ - * >> //` on integers, and these operations."""

    name: str

    def put(self, values: NDArray[Any]) -> BackendArray:
        """Return the same integers as an array of this backend."""
        ...

    def take(self, values: BackendArray) -> Integers:
        """Return the same integers in NumPy."""
        ...

    def operand(self, values: BackendArray) -> BackendArray:
        """Return the same integers in the form that a workload's `product` takes."""
        ...

    def clamp(self, values: BackendArray, low: int, high: int) -> BackendArray:
        """Return the values, each limited to [low, high]."""
        ...

    def peak(self, values: BackendArray) -> BackendArray:
        """Return the maximum over the last axis, which keeps length 1."""
        ...

    def total(self, values: BackendArray) -> BackendArray:
        """Return the sum over the last axis, which keeps length 1."""
        ...


class PlainIntegers:
    """int64 NumPy without any float: correct by inspection. Implements `IntegerBackend` (see there)."""

    name = "reference"

    def put(self, values: NDArray[Any]) -> BackendArray:
        """Return a copy as int64."""
        return values.astype(np.int64)

    def take(self, values: BackendArray) -> Integers:
        """Return the values as they are, int64."""
        return np.asarray(values, dtype=np.int64)

    def operand(self, values: BackendArray) -> BackendArray:
        """Return the values as they are, int64."""
        return np.asarray(values, dtype=np.int64)

    def clamp(self, values: BackendArray, low: int, high: int) -> BackendArray:
        """Return the values, each limited to [low, high] by two comparisons."""
        return np.minimum(np.maximum(values, low), high)

    def peak(self, values: BackendArray) -> BackendArray:
        """Return NumPy's maximum over the last axis."""
        return values.max(axis=-1, keepdims=True)

    def total(self, values: BackendArray) -> BackendArray:
        """Return NumPy's sum over the last axis, in int64."""
        return values.sum(axis=-1, keepdims=True)
