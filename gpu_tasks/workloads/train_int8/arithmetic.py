"""The arithmetic of `train-int8`: a backend's operations, the reference without floats, rounding, powers of e.

Notation: a *unit* is the value of 1. Activations are 8 bits with their sign, in units of 2**-5. Weights are stored in
units of 2**-24, and multiply as 14 bits and a sign, in units of 2**-12. Errors have 19 bits and a sign, in units of
2**-15. Shifts and `//` round towards minus infinity, `round_shift` rounds halves up.

Invariant: every value is an integer below 2**63, and every sum of products, partial sums too, is below 2**53. A backend
may therefore compute its products in float64, in any order, and be exact. `training_step.py` gives the bound of each.
"""

from collections.abc import Sequence
from functools import cache
from typing import Protocol

import numpy as np

from gpu_tasks.workloads.integer_arrays import BackendArray, IntegerBackend, PlainIntegers
from gpu_tasks.workloads.integer_arrays import Integers as Integers  # noqa: PLC0414  # a word of this arithmetic too

Tensor = BackendArray

POWER_ENTRIES = 4096  # Steps of 1/256: e**0 down to e**-16
POWER_BITS = 24
_POWER_STEP = 1148426689630428644  # round(e**(-1/256) * 2**60)


class ExactArithmetic(IntegerBackend, Protocol):
    """A backend: arrays with `<< > < &` and indexing too, and these operations."""

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """Return exactly `left[m, k] @ right[k, n]` of operands, while sums of magnitudes are below 2**53."""
        ...

    def beside(self, values: Tensor, constant: int) -> Tensor:
        """Return `values[m, n]` with one more column, a constant."""
        ...

    def sums_by_place(self, rows: Tensor, places: Tensor, count: int) -> Tensor:
        """Return int64[count, n]: for each place below `count`, the sum of the `rows[m, n]` with it in `places[m]`."""
        ...

    def entries(self, arrays: Sequence[Tensor], places: Sequence[int]) -> Tensor:
        """Return int64[n]: of each array the entry at its place, counted row by row from 0."""
        ...


class IntegerArithmetic(PlainIntegers):
    """The reference: plain int64 NumPy without any float. It is slow, and correct by inspection."""

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """Multiply by NumPy's integer loops."""
        return left @ right

    def beside(self, values: Tensor, constant: int) -> Tensor:
        """Return a copy with the column."""
        return np.concatenate([values, np.full((len(values), 1), constant, dtype=values.dtype)], axis=1)

    def sums_by_place(self, rows: Tensor, places: Tensor, count: int) -> Tensor:
        """Add number by number, on flat arrays, because `add.at` is slow on others."""
        width = rows.shape[1]
        sums = np.zeros(count * width, dtype=np.int64)
        np.add.at(sums, (places[:, None] * width + np.arange(width)).reshape(-1), rows.reshape(-1))
        return sums.reshape(count, width)

    def entries(self, arrays: Sequence[Tensor], places: Sequence[int]) -> Tensor:
        """Take number by number."""
        return np.array([array.item(place) for array, place in zip(arrays, places, strict=True)], dtype=np.int64)


def powers_of_e() -> Integers:
    """Return int64[POWER_ENTRIES]: e**(-i/256) in units of 2**-24, and 0 as the last entry."""
    return np.array(_power_entries(), dtype=np.int64)


@cache
def _power_entries() -> tuple[int, ...]:
    entries, value = [], 1 << 60
    for _ in range(POWER_ENTRIES - 1):
        entries.append((value + (1 << (59 - POWER_BITS))) >> (60 - POWER_BITS))
        value = value * _POWER_STEP >> 60
    return *entries, 0


def round_shift(values: Tensor, bits: int) -> Tensor:
    """Return `values` divided by 2**bits, halves rounded up."""
    return (values + (1 << bits >> 1)) >> bits
