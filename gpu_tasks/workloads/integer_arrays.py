"""Arrays of integers as workloads calculate with them: what a backend supplies, and the reference in int64 NumPy.

A workload adds operations of its own, and says how large their results may be.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
BackendArray = Any  # whatever a backend calculates with; always integers


class IntegerBackend(Protocol):
    """What a backend supplies: arrays with `+ - * >> //` on integers, and these operations."""

    name: str

    def put(self, values: NDArray[Any]) -> BackendArray:
        """The same integers as an array of this backend."""
        ...

    def take(self, values: BackendArray) -> Integers:
        """The same integers in NumPy."""
        ...

    def operand(self, values: BackendArray) -> BackendArray:
        """The same integers in the form that a workload's `product` wants."""
        ...

    def clamp(self, values: BackendArray, low: int, high: int) -> BackendArray:
        """Every value moved into [low, high]."""
        ...

    def peak(self, values: BackendArray) -> BackendArray:
        """Maximum over the last axis, which stays with length 1."""
        ...

    def total(self, values: BackendArray) -> BackendArray:
        """Sum over the last axis, which stays with length 1."""
        ...


class PlainIntegers:
    """int64 NumPy without a float anywhere: right by inspection. Implements `IntegerBackend` (see there)."""

    name = "reference"

    def put(self, values: NDArray[Any]) -> BackendArray:
        """A copy."""
        return values.astype(np.int64)

    def take(self, values: BackendArray) -> Integers:
        """int64 already."""
        return np.asarray(values, dtype=np.int64)

    def operand(self, values: BackendArray) -> BackendArray:
        """int64 already."""
        return np.asarray(values, dtype=np.int64)

    def clamp(self, values: BackendArray, low: int, high: int) -> BackendArray:
        """Two comparisons."""
        return np.minimum(np.maximum(values, low), high)

    def peak(self, values: BackendArray) -> BackendArray:
        """NumPy's maximum."""
        return values.max(axis=-1, keepdims=True)

    def total(self, values: BackendArray) -> BackendArray:
        """NumPy's sum; int64 stays int64."""
        return values.sum(axis=-1, keepdims=True)
