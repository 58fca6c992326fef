"""Float matrices to integers: rows of zeros, huge and tiny ones, ties, and balances that keep the function."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpu_tasks.models.sources.source_model import SourceError
from gpu_tasks.workloads.integer_transformer.rounding import (
    balanced_gain,
    column_peaks,
    eight_bit_rows,
    fixed_bias,
    gain_row,
    inverse_peaks,
)
from gpu_tasks.workloads.integer_transformer.rows import EXPONENT_MAX, Rows

LEAST = -40


def floats(rows: Rows) -> Any:
    return rows.integers * np.ldexp(rows.mantissas.astype(np.float64), -rows.exponents.astype(np.int64))[:, None]


def test_rows_of_every_size_keep_eight_bits() -> None:
    sizes = np.ldexp(1.0, np.arange(-38, 60))
    weights = np.random.default_rng(1).uniform(-1, 1, (len(sizes), 33))
    weights[:, 7] = 1
    rows = eight_bit_rows(weights * sizes[:, None], LEAST - 20)
    rows.check(LEAST - 20)
    assert (rows.integers[:, 7] == 127).all()
    assert (np.abs(floats(rows) - weights * sizes[:, None]) <= sizes[:, None] / 127 * 0.501).all()


def test_rows_of_zeros_and_beyond_the_range_become_zeros() -> None:
    rows = eight_bit_rows(np.array([[0.0, 0.0], [2.0**-80, -(2.0**-80)], [1.0, 0.0], [5e-324, 0.0]]), 0)
    rows.check(0)
    assert rows.integers.tolist() == [[0, 0], [0, 0], [127, 0], [0, 0]]
    assert rows.exponents[[0, 1, 3]].tolist() == [EXPONENT_MAX] * 3


def test_a_mantissa_that_rounds_up_to_its_end_is_carried() -> None:
    peak = 127 * (1 - 2.0**-20)
    rows = eight_bit_rows(np.array([[peak, -peak], [127.0, 63.5]]), 0)
    assert rows.mantissas.tolist() == [1 << 15, 1 << 15]
    assert rows.exponents.tolist() == [15, 15]
    assert rows.integers.tolist() == [[127, -127], [127, 64]]


def test_ties_go_to_the_even_integer() -> None:
    rows = eight_bit_rows(np.array([[127.0, 0.5, 1.5, -0.5, -1.5, 2.5]]), 0)
    assert rows.integers.tolist() == [[127, 0, 2, 0, -2, 2]]


@pytest.mark.parametrize("least", [-40, 0, 15])
def test_rows_too_large_are_refused(least: int) -> None:
    fits = 127 * 2.0 ** (15 - least)
    assert eight_bit_rows(np.array([[fits]]), least).exponents.tolist() == [least]
    with pytest.raises(SourceError) as refused:
        eight_bit_rows(np.array([[0.0], [fits * 2]]), least)
    assert refused.value.code == "range"


@pytest.mark.parametrize("size", [1e300, 3.4e38])
def test_no_exponent_wraps_round(size: float) -> None:
    with pytest.raises(SourceError):
        eight_bit_rows(np.array([[size, -size]]), LEAST)


def test_many_rows_are_rounded_as_few() -> None:
    weights = np.random.default_rng(2).normal(0, 1, (9000, 3))
    whole, part = eight_bit_rows(weights, 0), eight_bit_rows(weights[4090:4100], 0)
    assert np.array_equal(whole.integers[4090:4100], part.integers)


@pytest.mark.parametrize(
    ("gain", "integers", "exponent"),
    [
        ([1.0, 0.5, -0.25], [16384, 8192, -4096], 14),
        ([0.99999, 0.0, 1e-9], [32767, 1, 1], 15),
        ([1.99999, -1.0, 0.0], [32767, -16384, 1], 14),
        ([32767.0, 1.4, -32767.0], [32767, 1, -32767], 0),
        ([2.0**-47, 0.0, 0.0], [1 << 14, 1, 1], 61),
    ],
)
def test_gains(gain: list[float], integers: list[int], exponent: int) -> None:
    row = gain_row(np.array(gain))
    assert row.check() == exponent
    assert row.integers.tolist() == integers


@pytest.mark.parametrize("gain", [[65536.0], [1e30, 1.0], [2.0**-49]])
def test_gains_that_do_not_fit_are_refused(gain: list[float]) -> None:
    with pytest.raises(SourceError) as refused:
        gain_row(np.array(gain))
    assert refused.value.code == "range"


def test_biases() -> None:
    assert fixed_bias(np.array([0.5, -0.25, 2.0**-15]), 14).tolist() == [8192, -4096, 0]
    most = ((1 << 26) - 1) / (1 << 14)
    assert fixed_bias(np.array([most, -most]), 14).tolist() == [(1 << 26) - 1, 1 - (1 << 26)]
    with pytest.raises(SourceError) as refused:
        fixed_bias(np.array([4096.0]), 14)
    assert refused.value.code == "range"


matrices = arrays(np.float64, (5, 7), elements=st.floats(-100, 100, allow_subnormal=False).map(lambda x: round(x, 3)))
gains = arrays(np.float64, 7, elements=st.floats(-4, 4).map(lambda x: round(x, 3)))


@given(matrices, matrices, gains)
def test_a_balance_keeps_the_product(first: Any, second: Any, gain: Any) -> None:
    row, balanced = balanced_gain(gain, [first, second])
    factors = np.ldexp(row.integers.astype(np.float64), -row.check())
    assert (factors > 0).all()
    for matrix, was in zip(balanced, (first, second), strict=True):
        assert np.allclose(matrix * factors, was * gain, rtol=1e-14, atol=0)


@given(matrices, st.integers(0, 6), st.sampled_from([2.0**5, 2.0**-5]))
def test_column_peaks_follow_a_column(weights: Any, column: int, factor: float) -> None:
    """The result does not depend on a scale that was moved between two matrices."""
    weights = weights + np.sign(weights + 0.5)
    planted = weights.copy()
    planted[:, column] *= factor
    plain, changed = column_peaks(weights), column_peaks(planted)
    others = np.arange(7) != column
    ratio = (changed[column] / plain[column]) / (changed[others] / plain[others])
    assert np.allclose(ratio, factor)


def test_factors_have_a_median_of_one_and_a_limit() -> None:
    peaks = column_peaks(np.array([[1.0, 1e-30, 2.0], [3.0, 0.0, 4.0]]))
    assert np.median(peaks) == 1
    assert peaks.max() / peaks.min() <= 1 << 12
    assert inverse_peaks(np.array([2.0, 4.0, 1.0])).tolist() == [1.0, 0.5, 2.0]
    assert inverse_peaks(np.zeros(3)).tolist() == [1.0] * 3
    assert column_peaks(np.zeros((2, 3))).tolist() == [1.0] * 3
