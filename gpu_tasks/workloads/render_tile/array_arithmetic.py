"""The operations that `vector_tracing.py` needs of a backend, and the backend that every machine has: NumPy.

Invariant: arrays are int64 and every value keeps to the bounds of `fixed_point.py`. Only a root uses a float: the
float64 square root of an integer below 2**62 is off by less than 1, and a comparison of squares corrects it.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]
PathArray = Any  # The array type of a backend, always of integers or truths


class ArrayArithmetic(Protocol):
    """A backend: int64 arrays with `+ - * // >> << & | ^ < > == ~`, indexing, and these operations."""

    name: str
    paths: int
    """The number of paths to follow at once."""

    def put(self, values: Any) -> PathArray:
        """Return integers of NumPy or of lists as an array of this backend."""
        ...

    def take(self, values: PathArray) -> Int64Array:
        """Return the same integers in NumPy."""
        ...

    def root(self, squares: PathArray) -> PathArray:
        """Return the roots of integers from 0 to 2**62, rounded down."""
        ...

    def choose(self, conditions: PathArray, values: PathArray, others: PathArray) -> PathArray:
        """Return `values` where `conditions` is true, else `others`. At least one of the two is an array."""
        ...

    def lesser(self, left: PathArray, right: PathArray) -> PathArray:
        """Return the lesser of two, place by place."""
        ...

    def greater(self, left: PathArray, right: PathArray) -> PathArray:
        """Return the greater of two, place by place."""
        ...

    def where(self, conditions: PathArray) -> PathArray:
        """Return the places of true entries, ascending."""
        ...

    def at(self, values: PathArray, array_places: PathArray) -> PathArray:
        """Return the entries of the last axis at the places."""
        ...


class NumpyArrays:
    """Arrays of NumPy. Implements `ArrayArithmetic` (see there for the methods)."""

    name = "numpy"
    paths = 1 << 15

    def put(self, values: Any) -> PathArray:
        """Return the values as int64."""
        return np.asarray(values, dtype=np.int64)

    def take(self, values: PathArray) -> Int64Array:
        """Return the values as they are, int64."""
        return np.asarray(values, dtype=np.int64)

    def root(self, squares: PathArray) -> PathArray:
        """Return float64 roots, corrected by comparing squares."""
        roots = np.sqrt(squares.astype(np.float64)).astype(np.int64)
        roots -= roots * roots > squares
        roots += (roots + 1) * (roots + 1) <= squares
        return roots

    def choose(self, conditions: PathArray, values: PathArray, others: PathArray) -> PathArray:
        """Return NumPy's `where` of two values."""
        return np.where(conditions, values, others)

    def lesser(self, left: PathArray, right: PathArray) -> PathArray:
        """Return NumPy's minimum of two arrays."""
        return np.minimum(left, right)

    def greater(self, left: PathArray, right: PathArray) -> PathArray:
        """Return NumPy's maximum of two arrays."""
        return np.maximum(left, right)

    def where(self, conditions: PathArray) -> PathArray:
        """Return NumPy's flat `nonzero`."""
        return np.flatnonzero(conditions)

    def at(self, values: PathArray, array_places: PathArray) -> PathArray:
        """Return NumPy's `take` along the last axis."""
        return np.take(values, array_places, axis=-1)
