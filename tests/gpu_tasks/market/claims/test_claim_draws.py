"""The draws of a claim: their beacons, their chances, and the named checker."""

from collections import Counter

import pytest

from gpu_tasks.batches.item_draws import BEACONS, part_length, points_by_beacon
from gpu_tasks.market.claims.draws import beacon_heights, draw_items, draw_second, name_checker
from runtime.cryptography.hashing import blake2_256

CLAIM = b"c" * 32
TRIALS = 3_000


def beacons(number: int) -> list[bytes]:
    """Return the 16 beacons of a trial."""
    return [blake2_256(number.to_bytes(4, "little") + bytes((place,))) for place in range(BEACONS)]


def is_near(count: int, trials: int, chance: float) -> bool:
    """Return True if a count lies within four standard deviations."""
    return (count - trials * chance) ** 2 <= 16 * trials * chance * (1 - chance)


def test_claims_of_16_blocks_share_16_later_beacons() -> None:
    assert beacon_heights(0) == beacon_heights(15) == range(17, 33)
    assert beacon_heights(16) == beacon_heights(31) == range(33, 49)
    assert all(min(beacon_heights(height)) > height for height in range(100))


@pytest.mark.parametrize("rate", [100_000, 200_000, 333_333, 500_000])
def test_a_single_item_is_drawn_at_its_rate(rate: int) -> None:
    drawn = [draw_items(beacons(number), CLAIM, items=1, weight=10**6, rate_ppm=rate) for number in range(TRIALS)]
    assert is_near(sum(each is not None for each in drawn), TRIALS, rate / 10**6)
    assert all(len(each.points) == 1 for each in drawn if each is not None)


def test_the_rate_1_always_draws_and_the_rate_0_never() -> None:
    for number in range(200):
        always = draw_items(beacons(number), CLAIM, items=1, weight=10**6, rate_ppm=1_000_000)
        assert always is not None
        assert always.points[0] < 10**6
        assert draw_items(beacons(number), CLAIM, items=1, weight=10**6, rate_ppm=0) is None


def test_a_claim_with_many_items_has_four_points() -> None:
    for number in range(100):
        drawn = draw_items(beacons(number), CLAIM, items=1_000, weight=10**9, rate_ppm=4_000)
        assert drawn is not None
        assert len(drawn.points) == 4
        assert [point * 4 // 10**9 for point in drawn.points] == [0, 1, 2, 3], "one in each part, in ascending order"


def test_each_point_is_drawn_by_one_beacon_and_the_first_of_them_names_the_checker() -> None:
    length = part_length(10**9, 1_000, 4_000)
    for number in range(100):
        values = beacons(number)
        by_beacon: list[list[int]] = []
        for count in range(1, BEACONS + 1):
            drawn_so_far = points_by_beacon(values[:count], CLAIM, 10**9, length)
            by_beacon.append([point for place, point in drawn_so_far if place == count - 1])
        drawn = draw_items(values, CLAIM, items=1_000, weight=10**9, rate_ppm=4_000)
        assert drawn is not None
        assert drawn.points == tuple(sorted(point for points in by_beacon for point in points))
        first = values.index(drawn.beacon)
        assert by_beacon[first]
        assert not any(by_beacon[:first])


def test_later_beacons_change_neither_the_checker_nor_its_first_points() -> None:
    """An author that withholds its block redraws only the points of its own beacon."""
    for number in range(200):
        values = beacons(number)
        drawn = draw_items(values, CLAIM, items=1, weight=10**6, rate_ppm=1_000_000)
        assert drawn is not None
        first = values.index(drawn.beacon)
        changed = values[: first + 1] + beacons(number + 1_000)[first + 1 :]
        assert draw_items(changed, CLAIM, items=1, weight=10**6, rate_ppm=1_000_000) == drawn


def test_claims_with_the_same_beacons_have_draws_of_their_own() -> None:
    names = [blake2_256(number.to_bytes(4, "little")) for number in range(TRIALS)]
    drawn = [draw_items(beacons(1), name, items=1, weight=10**6, rate_ppm=200_000) for name in names]
    assert is_near(sum(each is not None for each in drawn), TRIALS, 0.2)


def test_one_claim_in_four_has_a_second_check_whatever_its_first_draw() -> None:
    trials = [beacons(number) for number in range(TRIALS)]
    first = [draw_items(each, CLAIM, items=1, weight=10**6, rate_ppm=500_000) is not None for each in trials]
    second = [draw_second(each, CLAIM) is not None for each in trials]
    assert is_near(sum(second), TRIALS, 1 / 4)
    assert is_near(sum(one and other for one, other in zip(first, second, strict=True)), TRIALS, 1 / 8)


def test_checkers_are_drawn_by_stake() -> None:
    entrants = [(b"a" * 32, 1_000), (b"b" * 32, 3_000)]
    names = Counter(name_checker(beacons(number)[0], CLAIM, entrants, lambda _: True) for number in range(TRIALS))
    assert is_near(names[b"b" * 32], TRIALS, 3 / 4)
    assert names.total() == TRIALS


def test_an_ineligible_validator_only_makes_room() -> None:
    entrants = [(bytes((number,)) * 32, 1_000 + number) for number in range(9)]
    for number in range(100):
        seed = beacons(number)[0]
        first = name_checker(seed, CLAIM, entrants, lambda _: True)
        assert name_checker(seed, CLAIM, entrants[::-1], lambda _: True) == first
        without = [entrant for entrant in entrants if entrant[0] != first]
        next_one = name_checker(seed, CLAIM, entrants, lambda stash: stash != first)  # noqa: B023 - called at once
        assert next_one == name_checker(seed, CLAIM, without, lambda _: True)
        assert next_one != first
    assert name_checker(beacons(0)[0], CLAIM, entrants, lambda _: False) is None
