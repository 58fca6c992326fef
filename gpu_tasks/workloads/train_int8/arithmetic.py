"""The arithmetic of `train-int8`: what a backend supplies, the reference without a float, rounding, and e to a power.

Notation: a *unit* says what 1 stands for. Activations are 8 bits with their sign, in units of 2**-5; weights are kept
in units of 2**-24, and multiply as 14 bits and a sign, in units of 2**-12; errors have 19 bits and a sign, in units of
2**-15. Shifts and `//` round towards minus infinity, `round_shift` halves up.

Always: every value is an integer below 2**63, and every sum of products below 2**53, partial sums too: so a backend may
take its products in float64, in any order, and be exact. `training_step.py` states the bound of each.
"""

from functools import cache
from typing import Protocol

import numpy as np

from gpu_tasks.workloads.integer_arrays import BackendArray, IntegerBackend, PlainIntegers
from gpu_tasks.workloads.integer_arrays import Integers as Integers  # noqa: PLC0414  # a word of this arithmetic too

Tensor = BackendArray

POWER_ENTRIES = 4096  # steps of 1/256: e**0 down to e**-16
POWER_BITS = 24
_POWER_STEP = 1148426689630428644  # round(e**(-1/256) * 2**60)


class ExactArithmetic(IntegerBackend, Protocol):
    """What a backend supplies: arrays with `<< > < &` and indexing too, and these operations."""

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """Exact `left[m, k] @ right[k, n]` of operands, while sums of magnitudes are below 2**53."""
        ...

    def beside(self, values: Tensor, constant: int) -> Tensor:
        """`values[m, n]` with one more column, of a constant."""
        ...

    def sums_by_place(self, rows: Tensor, places: Tensor, count: int) -> Tensor:
        """int64[count, n]: of `rows[m, n]`, the sum of those whose `places[m]` is 0, 1, ... count - 1."""
        ...


class IntegerArithmetic(PlainIntegers):
    """The reference: plain int64 NumPy without a float anywhere; slow, and right by inspection."""

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """NumPy multiplies integer matrices with integer loops."""
        return left @ right

    def beside(self, values: Tensor, constant: int) -> Tensor:
        """A copy."""
        return np.concatenate([values, np.full((len(values), 1), constant, dtype=values.dtype)], axis=1)

    def sums_by_place(self, rows: Tensor, places: Tensor, count: int) -> Tensor:
        """Number by number: `add.at` is fast on flat arrays only."""
        width = rows.shape[1]
        sums = np.zeros(count * width, dtype=np.int64)
        np.add.at(sums, (places[:, None] * width + np.arange(width)).reshape(-1), rows.reshape(-1))
        return sums.reshape(count, width)


def powers_of_e() -> Integers:
    """int64[POWER_ENTRIES]: e**(-i/256) in units of 2**-24, and 0 as the last entry."""
    return np.array(_power_entries(), dtype=np.int64)


@cache
def _power_entries() -> tuple[int, ...]:
    entries, value = [], 1 << 60
    for _ in range(POWER_ENTRIES - 1):
        entries.append((value + (1 << (59 - POWER_BITS))) >> (60 - POWER_BITS))
        value = value * _POWER_STEP >> 60
    return *entries, 0


def round_shift(values: Tensor, bits: int) -> Tensor:
    """`values` divided by 2**bits, halves rounded up."""
    return (values + (1 << bits >> 1)) >> bits
