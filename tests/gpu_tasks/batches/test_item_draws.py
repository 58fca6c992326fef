"""Points of a claim's line: an item's chance follows its own weight and the claim's rate alone."""

from collections import Counter
from fractions import Fraction
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.batches.item_draws import BEACONS, PPM, part_length, points_by_beacon
from gpu_tasks.batches.leaf_draws import index_at, total_weight
from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.sum_tree import totals_of
from runtime.cryptography.hashing import blake2_256

SEED, CLAIM = bytes([7]) * 32, bytes([8]) * 32
tokens = st.integers(0, 20)
leaf = st.builds(Leaf, tokens_in=tokens, tokens_out=tokens, digest=st.binary(min_size=32, max_size=32))
claims = st.lists(leaf, min_size=1, max_size=24)
shares = st.sampled_from([0, 1, 250_000, PPM, 3_333_333])
floors = st.integers(1, 9)
rates = st.integers(1, 600_000)


def weights(leaves: list[Leaf], floor: int, share: int) -> list[int]:
    return [PPM * (leaf.tokens_out + floor) + share * leaf.tokens_in for leaf in leaves]


def drawn_points(seeds: list[bytes], claim: bytes, weight: int, length: int) -> list[int]:
    """Return the points that the last of these beacons draws."""
    return [point for place, point in points_by_beacon(seeds, claim, weight, length) if place == len(seeds) - 1]


@pytest.mark.parametrize(
    ("weight", "items", "rate", "length"),
    [(1_000, 1, PPM, 1_000), (1_000, 1, 50_000, 20_000), (4_096_000, 4_096, 1_953, 512_032), (1, 16, PPM, 1)],
)
def test_the_length_of_a_part(weight: int, items: int, rate: int, length: int) -> None:
    assert part_length(weight, items, rate) == length


@pytest.mark.parametrize(("items", "rate"), [(1, 0), (17, PPM), (4_096, 3_907), (0, 1)])
def test_a_rate_without_points_or_with_too_many_is_refused(items: int, rate: int) -> None:
    with pytest.raises(ValueError, match=str(rate)):
        part_length(1_000, items, rate)


@given(leaves=claims, floor=floors, share=shares, rate=rates)
def test_an_item_expects_points_by_its_weight(leaves: list[Leaf], floor: int, share: int, rate: int) -> None:
    line, total = weights(leaves, floor, share), total_weight(totals_of(leaves), floor, input_share=share)
    assert sum(line) == total
    length = part_length(total, len(leaves), rate)
    mean = Fraction(total, len(leaves))
    for weight in line:
        wanted = Fraction(rate, PPM) * weight / mean
        # Rounding the length down only adds to the chance, by less than one part in `length`.
        assert wanted <= Fraction(weight, length) <= wanted * Fraction(length + 1, length)


def all_points(beacon_seeds: list[bytes], total: int, length: int, claim: bytes = CLAIM) -> list[int]:
    """Return the points of all beacons."""
    return [
        point for count in range(1, BEACONS + 1) for point in drawn_points(beacon_seeds[:count], claim, total, length)
    ]


@given(leaves=claims, floor=floors, share=shares, rate=rates, seed=st.binary(min_size=32, max_size=32))
def test_each_part_has_one_point_and_each_point_one_item(
    leaves: list[Leaf], floor: int, share: int, rate: int, seed: bytes
) -> None:
    totals = totals_of(leaves)
    total = total_weight(totals, floor, input_share=share)
    length = part_length(total, len(leaves), rate)
    points = sorted(all_points(seeds(seed), total, length))
    parts = [point // length for point in points]
    # Only the last part may lack its point, beyond the end of the line.
    assert parts == list(range(len(parts)))
    assert len(parts) in {-(-total // length) - 1, -(-total // length)}
    ends = list(accumulate(weights(leaves, floor, share)))
    for point in points:
        index = next(place for place, end in enumerate(ends) if point < end)
        assert index_at(leaves, floor, point, input_share=share) == index


def seeds(seed: bytes) -> list[bytes]:
    return [blake2_256(seed + bytes([place])) for place in range(BEACONS)]


def test_a_single_request_is_drawn_at_its_rate_and_by_each_beacon_alike() -> None:
    beacons_of_draws: Counter[int] = Counter()
    for number in range(4_000):
        values = seeds(number.to_bytes(4, "little"))
        for count in range(1, BEACONS + 1):
            beacons_of_draws[count] += len(drawn_points(values[:count], CLAIM, 1_000, part_length(1_000, 1, 400_000)))
    # 1,600 expected, with a standard deviation of 31; 100 for each beacon, with one of 10.
    assert 1_470 < beacons_of_draws.total() < 1_730
    assert all(55 < beacons_of_draws[count] < 150 for count in range(1, BEACONS + 1))


def test_a_request_of_rate_one_is_always_drawn_once() -> None:
    for number in range(300):
        assert len(all_points(seeds(number.to_bytes(4, "little")), 1_000, part_length(1_000, 1, PPM))) == 1


def test_the_end_of_a_line_is_drawn_as_often_as_its_length_says() -> None:
    claims_of_test = [number.to_bytes(32, "little") for number in range(1_000)]
    drawn = [[point for point in all_points(seeds(SEED), 17, 10, claim) if point >= 10] for claim in claims_of_test]
    # 7 of 10: 700 expected, with a standard deviation of 15.
    assert 620 < sum(map(len, drawn)) < 780
    assert {point for points in drawn for point in points} == set(range(10, 17))


def test_seeds_claims_and_parts_have_points_of_their_own() -> None:
    points = all_points(seeds(SEED), 10**9, 10**8)
    assert len({point % 10**8 for point in points}) == len(points) == 10
    assert all_points(seeds(bytes(32)), 10**9, 10**8) != points
    assert all_points(seeds(SEED), 10**9, 10**8, bytes(32)) != points
