"""Arrays of a model file: matrices of 8 bits with a scale for each row, gains, and tables. All are little-endian.

A file that passes the checks here cannot make the arithmetic overflow (`arithmetic.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_tasks.workloads.integer_transformer.arithmetic import (
    MANTISSA_BITS,
    SCALED_BITS,
    WEIGHT_MAX,
    Gain,
    Linear,
    TransformerBackend,
)
from runtime.encoding.codec import DecodeError

EXPONENT_MAX = 62
GAIN_MAX = (1 << SCALED_BITS) - 1


@dataclass(frozen=True)
class Rows:
    """A matrix: row r is `integers[r] * mantissas[r] * 2**-exponents[r]`."""

    integers: NDArray[np.int8]  # [n, k]
    mantissas: NDArray[np.uint16]  # [n], from 2**15
    exponents: NDArray[np.int8]  # [n]

    def arrays(self) -> Iterator[NDArray[Any]]:
        """Yield the arrays in file order."""
        yield from (self.integers, self.mantissas, self.exponents)

    def check(self, exponent_min: int) -> None:
        """Raise DecodeError unless all values are in range and every exponent is at least `exponent_min`."""
        check_range(self.integers, -WEIGHT_MAX, WEIGHT_MAX)
        check_range(self.mantissas, 1 << (MANTISSA_BITS - 1), (1 << MANTISSA_BITS) - 1)
        check_range(self.exponents, exponent_min, EXPONENT_MAX)

    def loaded(self, backend: TransformerBackend, bias: NDArray[Any] | None = None) -> Linear:
        """Put the matrix into the arrays of a backend, with a bias in the unit of its results."""
        exponents, bias_array = backend.put(self.exponents), None if bias is None else backend.put(bias)
        return Linear(backend.operand(self.integers), backend.put(self.mantissas), exponents, bias_array)


@dataclass(frozen=True)
class GainRow:
    """A factor for each channel: `integers * 2**-exponent`."""

    integers: NDArray[np.int16]  # [k]
    exponent: NDArray[np.int8]  # [1]

    def arrays(self) -> Iterator[NDArray[Any]]:
        """Yield the arrays in file order."""
        yield from (self.integers, self.exponent)

    def check(self) -> int:
        """Return the exponent. Raise DecodeError unless all values are in range."""
        check_range(self.integers, -GAIN_MAX, GAIN_MAX)
        check_range(self.exponent, 0, EXPONENT_MAX)
        return int(self.exponent[0])

    def loaded(self, backend: TransformerBackend) -> Gain:
        """Put the gain into the arrays of a backend."""
        return Gain(backend.put(self.integers), int(self.exponent[0]))


class ArrayReader:
    """Takes arrays from the bytes of a section, in file order."""

    def __init__(self, section: NDArray[np.uint8]) -> None:
        self._section = section
        self._start = 0

    def take(self, dtype: str, *shape: int) -> NDArray[Any]:
        """Return the next array, as a view. Raise DecodeError if the section is too short."""
        end = self._start + np.dtype(dtype).itemsize * int(np.prod(shape, dtype=object))
        if end > len(self._section):
            raise DecodeError("a section of arrays that ends early", self._start)
        array = self._section[self._start : end].view(dtype).reshape(shape)
        self._start = end
        return array

    def rows(self, rows: int, columns: int) -> Rows:
        """Return the next matrix."""
        return Rows(self.take("<i1", rows, columns), self.take("<u2", rows), self.take("<i1", rows))

    def gain(self, channels: int) -> GainRow:
        """Return the next gain."""
        return GainRow(self.take("<i2", channels), self.take("<i1", 1))

    def end(self) -> None:
        """Raise DecodeError unless all bytes are taken."""
        if self._start != len(self._section):
            raise DecodeError("a section of arrays with bytes behind its end", self._start)


def check_range(values: NDArray[Any], low: int, high: int) -> None:
    """Raise DecodeError unless all values are from `low` to `high`."""
    if values.min() < low or values.max() > high:
        raise DecodeError("a model value out of range")
