"""The tables of a model file, computed in integers alone: every machine writes the same bytes.

A table from a library's `exp` or `cos` would differ between processors in a last place, and so would the file's id.
"""

from collections.abc import Sequence
from decimal import Decimal, localcontext  # deterministic: exact to the stated digits

import numpy as np
from numpy.typing import NDArray

from gpu_tasks.workloads.integer_transformer.arithmetic import (
    EXP_BITS,
    EXP_ENTRIES,
    EXP_STEP_BITS,
    NORMAL_BITS,
    NORMAL_ENTRIES,
    NORMAL_STEP_BITS,
    SIGMOID_BITS,
    SIGMOID_ENTRIES,
    SIGMOID_STEP_BITS,
    UNIT_BITS,
)

_BITS = 90
_ONE = 1 << _BITS


def exponential_table() -> NDArray[np.int32]:
    """Return int32[EXP_ENTRIES]: 2**(-i / 4096) in units of 2**-24, and 0 as the last entry."""
    step = _fixed(Decimal(2) ** (Decimal(-1) / (1 << EXP_STEP_BITS)))
    entries, value = [], _ONE
    for _ in range(EXP_ENTRIES - 1):
        entries.append(_rounded(value, EXP_BITS))
        value = value * step >> _BITS
    return np.array([*entries, 0], dtype=np.int32)


def sigmoid_table() -> NDArray[np.int32]:
    """Return int32[SIGMOID_ENTRIES]: the logistic function from -16 on, in units of 2**-16; the first entry is 0."""
    half = SIGMOID_ENTRIES // 2
    step = _fixed((Decimal(-1) / (1 << SIGMOID_STEP_BITS)).exp())
    positive, power = [], _ONE  # power is e**-x
    for _ in range(half + 1):
        positive.append(_rounded(_ONE * _ONE // (_ONE + power), SIGMOID_BITS))
        power = power * step >> _BITS
    negative = [(1 << SIGMOID_BITS) - entry for entry in positive[:0:-1]]
    # Below -16 the gate is closed: else a very negative gate would let a share of itself through.
    negative[0] = 0
    return np.array([*negative, *positive[:half]], dtype=np.int32)


def normal_table() -> NDArray[np.int32]:
    """Return int32[NORMAL_ENTRIES]: the distribution function of the normal distribution from -8 on, unit 2**-16.

    Simpson's rule integrates exp(-x**2 / 2) with two strips for each entry. The error is below 2**-50 of an entry.
    """
    half, strip = NORMAL_ENTRIES // 2, Decimal(1) / (1 << (NORMAL_STEP_BITS + 1))
    # density(x + strip) = density(x) * ratio(x), and ratio(x + strip) = ratio(x) * turn
    ratio, turn = _fixed((-strip * strip / 2).exp()), _fixed((-strip * strip).exp())
    integrals, integral, density = [0], 0, _ONE
    for _ in range(half):
        first, middle = density, density * ratio >> _BITS
        ratio = ratio * turn >> _BITS
        density = middle * ratio >> _BITS
        ratio = ratio * turn >> _BITS
        integral += first + 4 * middle + density
        integrals.append(integral)
    # Beyond 8 lies less than 2**-50 of the area.
    positive = [_rounded((_ONE + _ONE * area // integral) // 2, NORMAL_BITS) for area in integrals]
    negative = [(1 << NORMAL_BITS) - entry for entry in positive[:0:-1]]
    return np.array([*negative, *positive[:half]], dtype=np.int32)


def rotary_tables(positions: int, angles: Sequence[Decimal]) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """Return cosines and sines int16[positions, pairs] in units of 2**-14 (arXiv:2104.09864).

    Pair i turns by `angles[i]` radians a position, at most 1.
    """
    cosines, sines = (
        np.zeros((positions, len(angles)), dtype=np.int16),
        np.zeros((positions, len(angles)), dtype=np.int16),
    )
    for pair, angle in enumerate(angles):
        turn_cosine, turn_sine = _turn(angle)
        cosine, sine = _ONE, 0
        for position in range(positions):
            cosines[position, pair], sines[position, pair] = _rounded(cosine, UNIT_BITS), _rounded(sine, UNIT_BITS)
            cosine, sine = (
                cosine * turn_cosine - sine * turn_sine >> _BITS,
                sine * turn_cosine + cosine * turn_sine >> _BITS,
            )
    return cosines, sines


def _turn(angle: Decimal) -> tuple[int, int]:
    """Return cosine and sine of an angle of at most 1, in units of 2**-90, by their power series."""
    with localcontext() as context:
        context.prec = 60
        term, cosine, sine = Decimal(1), Decimal(0), Decimal(0)
        for power in range(40):
            signed = -term if power % 4 >= 2 else term
            if power % 2:
                sine += signed
            else:
                cosine += signed
            term = term * angle / (power + 1)
    return _fixed(cosine), _fixed(sine)


def _fixed(value: Decimal) -> int:
    with localcontext() as context:
        context.prec = 60
        return int((value * _ONE).to_integral_value())


def _rounded(value: int, bits: int) -> int:
    return (value + (1 << (_BITS - bits - 1))) >> (_BITS - bits)
