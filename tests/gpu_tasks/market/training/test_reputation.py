"""The track record of a provider: value that fades, with failures counted five times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.training.reputation import (
    TrackRecord,
    decayed,
    failure_ppm,
    record_after_failing,
    record_after_settling,
    record_at,
)

OGPU = 10**8
LOSS = 50 * OGPU
FEE_PERCENT = 2
AMOUNTS = st.integers(1, 40) | st.integers(1, 10**6 * OGPU)


def settled_with(volume: int) -> TrackRecord:
    """Return a newcomer's record after it was paid `volume` grains."""
    return record_after_settling(TrackRecord(), volume, current_era=0)


@pytest.mark.parametrize(
    ("settled", "failed", "loss", "ppm"),
    [
        (0, 0, LOSS, 200_000),
        (0, 0, 1, 200_000),
        (0, 0, 0, 0),
        (10 * LOSS, 3 * LOSS, 0, 0),
        (5 * LOSS, 0, LOSS, 100_000),
        (0, 5 * LOSS, LOSS, 600_000),
        (1, 0, LOSS, 200_000),
        (1, 0, 1, 166_667),
    ],
)
def test_the_chance_of_a_failure(settled: int, failed: int, loss: int, ppm: int) -> None:
    """A fifth without a record. Rounding is against the bidder."""
    assert failure_ppm(TrackRecord(settled, failed), loss) == ppm


@pytest.mark.parametrize(("ppm", "fees", "saved_times_10"), [(100_000, 5, 50), (50_000, 15, 75), (20_000, 45, 90)])
def test_what_washing_costs_and_saves(ppm: int, fees: int, saved_times_10: int) -> None:
    """Payments to oneself: fees in oGPU for a trust that saves this much in each auction of a loss of 50."""
    volume = fees * OGPU * 100 // FEE_PERCENT
    assert failure_ppm(settled_with(volume), LOSS) == ppm
    assert failure_ppm(settled_with(volume - 10), LOSS) > ppm
    newcomer = failure_ppm(TrackRecord(), LOSS)
    assert (newcomer - ppm) * LOSS // 1_000_000 * 10 == saved_times_10 * OGPU


def test_small_jobs_buy_no_trust_for_large_tasks() -> None:
    """By a count of jobs, fifteen of them would give 5 % for a task of any size."""
    record = settled_with(150 * OGPU)
    assert failure_ppm(record, 10 * OGPU) == 50_000
    assert failure_ppm(record, LOSS) == 125_000
    assert failure_ppm(record, 100 * LOSS) > 198_000


def test_one_failure_outweighs_five_successes() -> None:
    record = settled_with(50 * OGPU)
    after = record_after_failing(record, 10 * OGPU, current_era=0)
    assert after == TrackRecord(50 * OGPU, 50 * OGPU)
    assert failure_ppm(after, LOSS) > failure_ppm(TrackRecord(), LOSS)


@given(st.lists(st.tuples(AMOUNTS, st.integers(0, 5)), max_size=40))
def test_records_stay_below_what_was_paid_and_fade(payments: list[tuple[int, int]]) -> None:
    record, era, total = TrackRecord(), 0, 0
    for amount, passed in payments:
        era += passed
        total += amount
        record = record_after_settling(record, amount, era)
        assert amount <= record.settled <= total
        assert record.era == era
    assert record_at(record, era + 200).settled <= record.settled // 100_000 + 16


@given(st.integers(0, 2**80), st.integers(0, 1_200), st.integers(0, 1_200))
def test_fading_by_eras_is_the_same_at_once_and_in_parts(value: int, first: int, second: int) -> None:
    assert decayed(decayed(value, first), second) == decayed(value, first + second)


@pytest.mark.parametrize(
    ("value", "eras", "left"), [(1_000_000, 0, 1_000_000), (1_000_000, 1, 937_500), (16, 1, 15), (15, 1, 15)]
)
def test_an_era_takes_a_sixteenth(value: int, eras: int, left: int) -> None:
    assert decayed(value, eras) == left
    record = TrackRecord(value, 2 * value, era=7)
    assert record_at(record, 7 + eras) == TrackRecord(left, decayed(2 * value, eras), 7 + eras)


def test_half_is_gone_after_eleven_eras() -> None:
    assert decayed(1_000_000, 10) > 500_000 > decayed(1_000_000, 11)


def test_a_failure_counts_in_its_own_era() -> None:
    record = record_after_failing(TrackRecord(1_600, 320, era=3), 100, current_era=4)
    assert record == TrackRecord(1_500, 300 + 500, 4)
