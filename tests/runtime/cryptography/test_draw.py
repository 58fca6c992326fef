"""Draws: frozen answers, the properties of sampling without replacement, and the effect of weights."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cryptography.draw import lottery, roulette

SEED = bytes(range(32))

weight_lists = st.lists(st.integers(0, 2**100), max_size=40)


def test_frozen_draw() -> None:
    """Proposers and committees of past blocks depend on these positions."""
    assert roulette(SEED, b"slot", [1, 2, 3, 4, 5, 6, 7, 8], 8) == [7, 6, 3, 5, 1, 2, 4, 0]


@pytest.mark.parametrize(
    ("weights", "k", "expected"),
    [([], 3, []), ([0, 0], 3, []), ([0, 7, 0], 3, [1]), ([5], 0, []), ([1], 1, [0])],
)
def test_small_cases(weights: list[int], k: int, expected: list[int]) -> None:
    assert roulette(SEED, b"", weights, k) == expected


@given(weights=weight_lists, k=st.integers(0, 50), seed=st.binary(max_size=40), label=st.binary(max_size=8))
def test_positions_are_distinct_weighted_and_as_many_as_possible(
    weights: list[int], k: int, seed: bytes, label: bytes
) -> None:
    before = list(weights)
    drawn = roulette(seed, label, weights, k)
    assert weights == before
    assert len(drawn) == len(set(drawn)) == min(k, sum(weight > 0 for weight in weights))
    assert all(weights[position] > 0 for position in drawn)
    assert roulette(seed, label, weights, max(0, k - 1)) == drawn[: max(0, k - 1)]


def test_seed_and_label_do_not_run_together() -> None:
    weights = [1] * 1000
    assert roulette(b"ab", b"c", weights, 5) != roulette(b"a", b"bc", weights, 5)


def test_shares_follow_weights() -> None:
    """20,000 draws: each count within 5 standard deviations of its expectation."""
    weights = [1, 2, 3, 4, 0]
    counts = Counter(roulette(i.to_bytes(4, "big"), b"", weights, 1)[0] for i in range(20_000))
    for position, weight in enumerate(weights):
        share = weight / 10
        assert abs(counts[position] - 20_000 * share) <= 5 * (20_000 * share * (1 - share)) ** 0.5


@pytest.mark.parametrize(("weights", "k"), [([1, -1], 1), ([1], -1)])
def test_negative_numbers_are_refused(weights: list[int], k: int) -> None:
    with pytest.raises(ValueError, match="negative"):
        roulette(SEED, b"", weights, k)


NAMES = [bytes([n]) * 32 for n in range(8)]


def test_frozen_lottery() -> None:
    """Racers and committees of past blocks depend on these positions."""
    assert lottery(SEED, b"unit", list(zip(NAMES, range(1, 9), strict=True)), 8) == [3, 7, 4, 6, 5, 2, 1, 0]


def test_small_lotteries() -> None:
    assert lottery(SEED, b"", [], 3) == []
    assert lottery(SEED, b"", [(NAMES[0], 0), (NAMES[1], 7)], 3) == [1]
    assert lottery(SEED, b"", [(NAMES[0], 1)], 0) == []
    with pytest.raises(ValueError, match="negative"):
        lottery(SEED, b"", [(NAMES[0], -1)], 1)


@given(
    weights=st.lists(st.integers(0, 2**100), max_size=8), leavers=st.sets(st.integers(0, 7)), seed=st.binary(max_size=8)
)
def test_who_leaves_a_lottery_does_not_change_the_order_of_the_others(
    weights: list[int], leavers: set[int], seed: bytes
) -> None:
    entrants = list(zip(NAMES, weights, strict=False))
    order = [entrants[place] for place in lottery(seed, b"u", entrants, 8)]
    staying = [entrant for place, entrant in enumerate(entrants) if place not in leavers]
    assert [staying[place] for place in lottery(seed, b"u", staying, 8)] == [name for name in order if name in staying]
    assert len(order) == sum(weight > 0 for weight in weights)


def test_shares_of_a_lottery_follow_weights() -> None:
    """20,000 lotteries: first and second places within 5 standard deviations of their expectation."""
    weights = [1, 2, 3, 4]
    entrants = list(zip(NAMES, weights, strict=False))
    places = [lottery(i.to_bytes(4, "big"), b"", entrants, 2) for i in range(20_000)]
    first, second = Counter(place[0] for place in places), Counter(place[1] for place in places)
    for position, weight in enumerate(weights):
        share = weight / 10
        after = sum(other / 10 * weight / (10 - other) for other in weights[:position] + weights[position + 1 :])
        assert abs(first[position] - 20_000 * share) <= 5 * (20_000 * share * (1 - share)) ** 0.5
        assert abs(second[position] - 20_000 * after) <= 5 * (20_000 * after * (1 - after)) ** 0.5
