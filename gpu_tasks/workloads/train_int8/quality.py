"""How good a model is: thousandths of a bit that a byte of held-out text costs it, a whole number.

A byte costs log2(total of powers) - log2(its power), each with 16 binary places, found by squaring: no float, and no
table that a library could have otherwise.
"""

import numpy as np

from gpu_tasks.workloads.train_int8.arithmetic import Integers

_PLACES = 16
_MANTISSA_BITS = 30


def milli_bits(powers: Integers, came: Integers) -> int:
    """The mean over int64[n, 256] powers in units of 2**-24 and int64[n] bytes, rounded; a power of 0 counts as 1."""
    its_own = np.maximum(powers[np.arange(len(came)), came], 1)
    total = int((log2(powers.sum(axis=-1)) - log2(its_own)).sum())  # at most 2**10 windows of 32 bits: below 2**31
    return (2 * 1000 * total // (len(came) << _PLACES) + 1) // 2


def log2(numbers: Integers) -> Integers:
    """Binary logarithms in units of 2**-16 of integers from 1 to 2**32, rounded down."""
    places = np.zeros_like(numbers)
    for bits in (32, 16, 8, 4, 2, 1):
        places += bits * (numbers >> places >= 1 << bits)
    mantissas = (numbers << _MANTISSA_BITS) >> places  # from 2**30 to 2**31 - 1, so that squares are below 2**62
    found = places
    for _ in range(_PLACES):
        squares = mantissas * mantissas >> _MANTISSA_BITS
        carries = squares >> (_MANTISSA_BITS + 1)
        mantissas = squares >> carries
        found = 2 * found + carries
    return found
