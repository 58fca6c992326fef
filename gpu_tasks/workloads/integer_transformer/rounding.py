"""Float matrices to the arrays of a model file. Every machine computes the same bytes (see `quantising.py`)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_tasks.models.sources.source_model import SourceError
from gpu_tasks.workloads.integer_transformer.arithmetic import MANTISSA_BITS, SCALED_BITS, VALUE_MAX, WEIGHT_MAX
from gpu_tasks.workloads.integer_transformer.rows import EXPONENT_MAX, GAIN_MAX, GainRow, Rows

Floats = NDArray[np.float64]

ROWS_AT_ONCE = 4096
LEAST_FACTOR = 2.0**-12
"""Of a channel's factor over the largest: a channel that is never used needs no range."""
BALANCE_ROUNDS = 3


def eight_bit_rows(weights: Floats, least_exponent: int) -> Rows:
    """Round a matrix [n, k] to integers from -127 to 127, with a scale for each row: its largest value over 127.

    Raise SourceError for weights too large for the arithmetic.
    """
    peaks = np.abs(weights).max(axis=1)
    fractions, exponents = np.frexp(peaks / WEIGHT_MAX)
    mantissas = np.round(fractions * (1 << MANTISSA_BITS)).astype(np.int64)
    exponents = MANTISSA_BITS - exponents.astype(np.int64)
    carried = mantissas == 1 << MANTISSA_BITS
    mantissas[carried] >>= 1
    exponents[carried] -= 1
    # A row of zeros has no size. Pruned models, and those with unused channels, have such rows.
    if exponents[mantissas > 0].min(initial=EXPONENT_MAX) < least_exponent:
        raise SourceError("range", f"a weight of {peaks.max():.3g} is too large for the integer arithmetic")
    # Rows of zeros, and of values that no sum would show, become zeros.
    empty = (mantissas == 0) | (exponents > EXPONENT_MAX)
    mantissas[empty], exponents[empty] = 1 << (MANTISSA_BITS - 1), EXPONENT_MAX
    scales = np.ldexp(mantissas.astype(np.float64), -exponents)
    integers = np.zeros(weights.shape, dtype=np.int8)
    for start in range(0, len(weights), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        rounded = np.clip(np.round(weights[part] / scales[part, None]), -WEIGHT_MAX, WEIGHT_MAX)
        integers[part] = np.where(empty[part, None], 0, rounded)
    return Rows(integers, mantissas.astype(np.uint16), exponents.astype(np.int8))


def column_peaks(weights: Floats) -> Floats:
    """Return the factors by which the columns exceed each other in their rows, [k], with a median of 1."""
    return _bounded(_column_factors([weights]))


def inverse_peaks(peaks: Floats) -> Floats:
    """Return the factors that make values with these peaks equally large, with a median of 1."""
    return 1 / _bounded(peaks)


def _bounded(peaks: Floats) -> Floats:
    peaks = np.maximum(peaks, peaks.max() * LEAST_FACTOR)
    middle = np.median(peaks)
    return np.ones_like(peaks) if middle == 0 else peaks / middle


def balanced_gain(gain: Floats, matrices: Sequence[Floats]) -> tuple[GainRow, list[Floats]]:
    """Return a norm's gain, and the matrices behind it, with columns that use the whole range of their rows.

    Gain times matrix stays the same for each matrix [n, k].
    """
    folded = [matrix * gain for matrix in matrices]
    row = gain_row(_column_factors(folded))
    factors = np.ldexp(row.integers.astype(np.float64), -int(row.exponent[0]))
    return row, [matrix / factors for matrix in folded]


def _column_factors(matrices: Sequence[Floats]) -> Floats:
    """Return factors that make the columns of all matrices, divided by them, about equally large in their rows."""
    sizes = np.abs(np.concatenate(matrices))
    # Peaks alone would not do: where one column is far larger than the others, it is the peak of nearly every row.
    factors, peaks = np.median(sizes, axis=0), sizes.max(axis=0)
    factors = np.where(factors == 0, peaks, factors)
    factors = np.where(factors == 0, 1, factors)
    for _ in range(BALANCE_ROUNDS):
        factors = factors * np.maximum(_relative_peaks(sizes / factors), LEAST_FACTOR)
    return np.asarray(factors / factors.max())


def _relative_peaks(sizes: Floats) -> Floats:
    row_peaks = sizes.max(axis=1, keepdims=True)
    return np.asarray((sizes / np.where(row_peaks == 0, 1, row_peaks)).max(axis=0))


def gain_row(gain: Floats) -> GainRow:
    """Round a gain [k] to 15 bits and a sign. A factor that rounds to zero keeps one unit."""
    exponent = SCALED_BITS - int(np.frexp(np.abs(gain).max())[1])
    if not 0 <= exponent <= EXPONENT_MAX:
        raise SourceError("range", f"a norm's gain of {np.abs(gain).max():.3g} does not fit the integer arithmetic")
    rounded = np.clip(np.round(np.ldexp(gain, exponent)), -GAIN_MAX, GAIN_MAX)
    rounded = np.where(rounded == 0, 1, rounded)
    return GainRow(rounded.astype(np.int16), np.array([exponent], dtype=np.int8))


def fixed_bias(bias: Floats, unit_bits: int) -> NDArray[np.int32]:
    """Round a bias to units of 2**-unit_bits. Raise SourceError if it does not fit."""
    rounded = np.round(np.ldexp(bias, unit_bits))
    if np.abs(rounded).max() > VALUE_MAX:
        raise SourceError("range", f"a bias of {np.abs(bias).max():.3g} does not fit the integer arithmetic")
    return rounded.astype(np.int32)
