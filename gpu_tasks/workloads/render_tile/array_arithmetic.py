"""What a backend supplies to `vector_tracing.py`, and the one that everybody has: NumPy.

Always: arrays are int64 and every value keeps to the bounds of `fixed_point.py`. The one float is that of a root: the
square root in float64 of an integer below 2**62 is off by less than 1, and is put right by comparing squares.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]
PathArray = Any  # whatever a backend calculates with; always integers, or truths


class ArrayArithmetic(Protocol):
    """What a backend supplies: int64 arrays with `+ - * // >> << & | ^ < > == ~`, indexing, and these operations."""

    name: str
    paths: int
    """How many to follow at once."""

    def put(self, values: Any) -> PathArray:
        """Integers of NumPy or of lists as an array of this backend."""
        ...

    def take(self, values: PathArray) -> Int64Array:
        """The same integers in NumPy."""
        ...

    def root(self, squares: PathArray) -> PathArray:
        """The roots of integers from 0 to 2**62, rounded down."""
        ...

    def choose(self, truths: PathArray, values: PathArray, others: PathArray) -> PathArray:
        """Where it is true a value, else the other; one of the two is an array."""
        ...

    def lesser(self, left: PathArray, right: PathArray) -> PathArray:
        """The lesser of two, place by place."""
        ...

    def greater(self, left: PathArray, right: PathArray) -> PathArray:
        """The greater of two, place by place."""
        ...

    def where(self, truths: PathArray) -> PathArray:
        """The places of what is true, ascending."""
        ...

    def at(self, values: PathArray, places: PathArray) -> PathArray:
        """Of the last axis, what stands at the places."""
        ...


class NumpyArrays:
    """Implements `ArrayArithmetic` (see there for the methods)."""

    name = "numpy"
    paths = 1 << 15

    def put(self, values: Any) -> PathArray:
        """int64."""
        return np.asarray(values, dtype=np.int64)

    def take(self, values: PathArray) -> Int64Array:
        """int64 already."""
        return np.asarray(values, dtype=np.int64)

    def root(self, squares: PathArray) -> PathArray:
        """By float64, put right."""
        found = np.sqrt(squares.astype(np.float64)).astype(np.int64)
        found -= found * found > squares
        found += (found + 1) * (found + 1) <= squares
        return found

    def choose(self, truths: PathArray, values: PathArray, others: PathArray) -> PathArray:
        """NumPy's `where`."""
        return np.where(truths, values, others)

    def lesser(self, left: PathArray, right: PathArray) -> PathArray:
        """NumPy's minimum."""
        return np.minimum(left, right)

    def greater(self, left: PathArray, right: PathArray) -> PathArray:
        """NumPy's maximum."""
        return np.maximum(left, right)

    def where(self, truths: PathArray) -> PathArray:
        """NumPy's flat `nonzero`."""
        return np.flatnonzero(truths)

    def at(self, values: PathArray, places: PathArray) -> PathArray:
        """NumPy's `take`."""
        return np.take(values, places, axis=-1)
