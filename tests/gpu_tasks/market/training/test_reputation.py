"""The track record of a provider: value that fades, from many customers, with failures counted five times."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.training.reputation import (
    CUSTOMER_SHARE,
    PATRONS_MAX,
    Patron,
    Patrons,
    TrackRecord,
    decayed,
    failure_ppm,
    patrons_after,
    patrons_at,
    record_after_failing,
    record_after_settling,
    record_at,
    trusted,
)
from runtime.encoding.codec import codec

OGPU = 10**8
LOSS = 50 * OGPU
FEE_PERCENT = 2
AMOUNTS = st.integers(1, 40) | st.integers(1, 10**6 * OGPU)


def name(number: int) -> bytes:
    return bytes([number]) * 32


def settled_with(customers: int, volume: int, jobs: int = 1) -> TrackRecord:
    """Return a newcomer's record after `volume` grains in equal parts, in `jobs` jobs of each of the customers."""
    record, patrons = TrackRecord(), Patrons()
    for job in range(customers * jobs):
        record, patrons = record_after_settling(
            record, patrons, customer=name(job % customers), paid_grains=volume // (customers * jobs), current_era=0
        )
    return record


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
    """Ten own accounts: fees in oGPU for a trust that saves this much in each auction of a loss of 50."""
    volume = fees * OGPU * 100 // FEE_PERCENT
    assert failure_ppm(settled_with(10, volume), LOSS) == ppm
    assert failure_ppm(settled_with(10, volume - 10), LOSS) > ppm
    newcomer = failure_ppm(TrackRecord(), LOSS)
    assert (newcomer - ppm) * LOSS // 1_000_000 * 10 == saved_times_10 * OGPU


@pytest.mark.parametrize(("ppm", "fees"), [(100_000, 50), (50_000, 150), (20_000, 450)])
def test_washing_under_a_single_name_costs_ten_times_as_much(ppm: int, fees: int) -> None:
    assert failure_ppm(settled_with(1, fees * OGPU * 100 // FEE_PERCENT, jobs=7 * 5), LOSS) >= ppm
    assert failure_ppm(settled_with(1, fees * OGPU * 100 // FEE_PERCENT), LOSS) == ppm


def test_small_jobs_buy_no_trust_for_large_tasks() -> None:
    """By a count of jobs, fifteen of them would give 5 % for a task of any size."""
    record = settled_with(15, 150 * OGPU)
    assert failure_ppm(record, 10 * OGPU) == 50_000
    assert failure_ppm(record, LOSS) == 125_000
    assert failure_ppm(record, 100 * LOSS) > 198_000


def test_one_failure_outweighs_five_successes() -> None:
    record = settled_with(10, 50 * OGPU)
    after = record_after_failing(record, 10 * OGPU, current_era=0)
    assert after == TrackRecord(50 * OGPU, 50 * OGPU)
    assert failure_ppm(after, LOSS) > failure_ppm(TrackRecord(), LOSS)


@pytest.mark.parametrize(("customers", "tenths"), [(1, 1), (2, 2), (9, 9), (10, 10), (21, 10), (40, 10)])
def test_each_customer_counts_for_a_tenth(customers: int, tenths: int) -> None:
    volume = 7_560 * OGPU
    assert settled_with(customers, volume, jobs=3).settled == volume * tenths // 10


def test_one_large_customer_hides_no_small_ones() -> None:
    """Nine tenths come from one customer, which counts for a tenth; the others count in full."""
    patrons = patrons_after(Patrons(), name(0), 900)
    for number in range(1, 101):
        patrons = patrons_after(patrons, name(number), 1)
    assert patrons.rest + sum(patron.settled for patron in patrons.known) == 1_000
    assert 100 <= trusted(patrons) <= 200
    assert patrons.known[0].customer == name(0)


def test_one_name_too_many_is_struck_off_against_all() -> None:
    patrons = Patrons(tuple(Patron(name(number), 5 + number) for number in range(PATRONS_MAX)))
    after = patrons_after(patrons, name(99), 6)
    assert after.rest == 5 * (PATRONS_MAX + 1)
    assert after.known == (*(Patron(name(number), number) for number in range(1, PATRONS_MAX)), Patron(name(99), 1))


@given(st.lists(st.tuples(st.integers(0, 40), AMOUNTS), max_size=80))
def test_nobody_makes_up_more_than_a_tenth(payments: list[tuple[int, int]]) -> None:
    """Payments in any order, compared with a list of all customers."""
    patrons, paid = Patrons(), Counter[bytes]()
    for number, amount in payments:
        patrons = patrons_after(patrons, name(number), amount)
        paid[name(number)] += amount
    known = {patron.customer: patron.settled for patron in patrons.known}
    total = paid.total()
    assert patrons.rest + sum(known.values()) == total
    assert len(known) <= PATRONS_MAX
    limit = max(0, total // CUSTOMER_SHARE - -(-patrons.rest // (PATRONS_MAX + 1)))
    for customer, amount in paid.items():
        struck_off = amount - known.get(customer, 0)
        assert 0 <= struck_off * (PATRONS_MAX + 1) <= patrons.rest
        assert struck_off + min(known.get(customer, 0), limit) <= total // CUSTOMER_SHARE
    counted = trusted(patrons)
    assert counted == patrons.rest + sum(min(value, limit) for value in known.values())
    ideal = sum(min(amount, total // CUSTOMER_SHARE) for amount in paid.values())
    assert 7 * ideal // 8 - PATRONS_MAX <= counted <= ideal, "an eighth at most is lost for want of more names"


@given(st.lists(st.tuples(st.integers(0, 30), AMOUNTS, st.integers(0, 5)), max_size=40))
def test_records_stay_below_what_was_paid_and_fade(payments: list[tuple[int, int, int]]) -> None:
    record, patrons, era, total = TrackRecord(), Patrons(), 0, 0
    for number, amount, passed in payments:
        era += passed
        total += amount
        record, patrons = record_after_settling(
            record, patrons, customer=name(number), paid_grains=amount, current_era=era
        )
        assert record.settled <= total
        assert record.era == patrons.era == era
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
    patrons = Patrons((Patron(name(1), value),), value, 7)
    assert patrons_at(patrons, 7 + eras) == Patrons((Patron(name(1), left),), left, 7 + eras)


def test_half_is_gone_after_eleven_eras() -> None:
    assert decayed(1_000_000, 10) > 500_000 > decayed(1_000_000, 11)


def test_a_failure_counts_in_its_own_era() -> None:
    record = record_after_failing(TrackRecord(1_600, 320, era=3), 100, current_era=4)
    assert record == TrackRecord(1_500, 300 + 500, 4)


def test_what_is_held_in_the_state_comes_back_as_it_was() -> None:
    patrons = Patrons(tuple(Patron(name(number), 2**90) for number in range(PATRONS_MAX)), 2**100, 2**31)
    assert codec(Patrons).decode(codec(Patrons).encode(patrons)) == patrons
    record = TrackRecord(2**100, 2**99, 7)
    assert codec(TrackRecord).decode(codec(TrackRecord).encode(record)) == record
