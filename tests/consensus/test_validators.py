"""Sets, quorums, leaders and slot proposers."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consensus.headers import proposer, slot_at
from consensus.validators import Epoch, Leaders, Validator, ValidatorSet
from consensus_parts import epochs_of, members


@pytest.mark.parametrize(
    ("weights", "quorum", "blocking"),
    [((1,), 1, 1), ((1, 1, 1), 3, 2), ((1, 1, 1, 1), 3, 2), ((1,) * 7, 5, 3), ((5, 4), 7, 4)],
)
def test_quorum_is_more_than_two_thirds(weights: tuple[int, ...], quorum: int, blocking: int) -> None:
    of = members(len(weights), weights=weights)
    assert of.is_quorum(quorum)
    assert not of.is_quorum(quorum - 1)
    assert of.is_blocking(blocking)
    assert not of.is_blocking(blocking - 1)


def validator(number: int, session: int, weight: int = 1) -> Validator:
    return Validator(bytes([number]) * 32, bytes([session]) * 32, bytes(32), weight)


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        ((), "1 to 128"),
        ((validator(1, 1), validator(1, 1)), "session key"),
        ((validator(2, 1), validator(1, 2)), "order of stash"),
        ((validator(1, 1, weight=0),), "weight above 0"),
        (tuple(validator(number, number) for number in range(129)), "1 to 128"),
    ],
    ids=["empty", "twice", "unsorted", "weightless", "too many"],
)
def test_bad_sets_are_refused(listed: tuple[Validator, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ValidatorSet(0, listed)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=10), st.binary(min_size=32, max_size=32))
def test_leaders_take_turns_by_weight(weights: list[int], seed: bytes) -> None:
    of = members(len(weights), weights=tuple(weights))
    leaders = Leaders(Epoch(of, seed))
    total = sum(weights)
    # Asked out of order, to show that only the round matters.
    assert leaders.leader(total) == Leaders(Epoch(of, seed)).leader(total)
    led = Counter(leaders.leader(round_) for round_ in range(1, total + 1))
    assert led == {member.session: member.weight for member in of.members}


def test_equal_weights_lead_in_turn() -> None:
    leaders = Leaders(Epoch(members(4), bytes(32)))
    assert len({leaders.leader(round_) for round_ in range(5, 9)}) == 4


def test_an_epochs_seed_says_where_its_leaders_begin() -> None:
    """Otherwise the largest stake leads the first round of every epoch, and if silent costs each a time-out."""
    first = [Leaders(Epoch(members(4), bytes(31) + bytes([seed]))).leader(1) for seed in range(4)]
    assert len(set(first)) == 4
    unequal = members(2, weights=(3, 1))
    sequence = Leaders(Epoch(unequal, bytes(32)))
    for seed in (0, 1, 15, 16, 17):
        leaders = Leaders(Epoch(unequal, seed.to_bytes(32, "big")))
        assert [leaders.leader(round_) for round_ in range(1, 9)] == [
            sequence.leader(seed % 16 + round_) for round_ in range(1, 9)
        ]


def test_slots_are_drawn_by_stake() -> None:
    epoch = Epoch(members(3, weights=(6, 3, 1)), bytes(32))
    counts = Counter(proposer(epoch, slot) for slot in range(2_000))
    shares = [counts[member.session] for member in epoch.validators.members]
    assert shares[0] + shares[1] + shares[2] == 2_000
    assert abs(shares[0] - 1_200) < 100
    assert abs(shares[2] - 200) < 60


@pytest.mark.parametrize("seats", [range(4), range(8, 12), range(0, 12, 3), (0, 1, 6, 7)], ids=str)
def test_the_places_of_a_coalition_in_the_set_give_it_no_runs_of_slots(seats: Iterable[int]) -> None:
    """Its outputs are known to it ahead, so longer runs would let it choose among more beacons (ADR 27).

    By turns in the order of stashes, a third of the set would own two slots in a row with 1/4 in adjacent seats, and
    never in every third seat.
    """
    epoch = Epoch(members(12), b"s" * 32)
    coalition = {epoch.validators.members[seat].session for seat in seats}
    own = [proposer(epoch, slot) in coalition for slot in range(20_000)]
    for length in (1, 2, 3):
        runs = [all(own[start : start + length]) for start in range(len(own) - length + 1)]
        # Four standard errors, with the correlation of runs that overlap.
        assert abs(sum(runs) / len(runs) - 3**-length) < 0.014
    # As many slots as a draw has beacons: 20,000 / 3^16 such runs are expected.
    assert not any(all(own[start : start + 16]) for start in range(len(own)))


def test_the_owner_of_a_slot_does_not_depend_on_the_owner_before() -> None:
    epoch = Epoch(members(12), b"s" * 32)
    sessions = [member.session for member in epoch.validators.members]
    drawn = [sessions.index(proposer(epoch, slot)) for slot in range(5_000)]
    steps = Counter((after - before) % 12 for before, after in pairwise(drawn))
    # Four standard errors: each distance between two owners is equally likely.
    assert all(abs(steps[distance] - 4_999 / 12) < 80 for distance in range(12))


def test_other_seed_other_proposers() -> None:
    first, second = epochs_of(4)(0), Epoch(members(4), b"s" * 32)
    assert [proposer(first, slot) for slot in range(50)] != [proposer(second, slot) for slot in range(50)]


def test_slot_at() -> None:
    assert [slot_at(now, 1_000) for now in (0, 999, 1_000, 1_800_000_000_123)] == [0, 0, 1, 1_800_000_000]
