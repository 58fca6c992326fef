"""The verdict on a proof's added time, from pairs of runs: their median, and nine of ten."""

import pytest

from benchmarks.balance import EXTRA_MS_MAX, Pair, figures, missed, ninetieth


def pairs_of(*extra: float) -> list[Pair]:
    """Return pairs under a varying load. Only the difference within a pair counts."""
    return [(500.0 * place + added, 500.0 * place) for place, added in enumerate(extra, 1)]


def test_figures_are_of_the_differences() -> None:
    found = figures(pairs_of(*([20.0] * 17 + [400.0, 50.0, -10.0])))
    assert (found["extra_median_ms"], found["extra_p90_ms"], found["pairs"]) == (20, 20, 20)
    assert (found["proved_median_ms"], found["trusting_median_ms"]) == (5_270, 5_250)
    assert missed(found) == []


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ([EXTRA_MS_MAX] * 20, []),
        ([EXTRA_MS_MAX + 1] * 11 + [0.0] * 9, ["extra_median_ms", "extra_p90_ms"]),
        ([0.0] * 17 + [EXTRA_MS_MAX + 1] * 3, ["extra_p90_ms"]),
        ([0.0] * 18 + [EXTRA_MS_MAX + 1] * 2, []),
    ],
)
def test_the_bar_is_for_the_middle_and_for_nine_of_ten(extra: list[float], named: list[str]) -> None:
    assert [failure.split()[0] for failure in missed(figures(pairs_of(*extra)))] == named


def test_nine_of_ten_are_not_above_the_ninetieth_percentile() -> None:
    assert [ninetieth(range(1, count + 1)) for count in (1, 9, 10, 11, 20)] == [1, 9, 9, 10, 18]
