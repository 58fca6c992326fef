"""Points on the line of the leaves: each names one leaf, shown by a path, in proportion to the leaf's weight."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.batches.leaf_draws import WHOLE, covers, drawn_points, index_at, leaves_to_check, weight_floor
from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.sum_tree import Totals, leaf_path, totals_of
from runtime.cryptography.hashing import blake2_256

SEED, UNIT = bytes([7]) * 32, bytes([8]) * 32
tokens = st.integers(0, 20)
leaf = st.builds(Leaf, tokens_in=tokens, tokens_out=tokens, digest=st.binary(min_size=32, max_size=32))
batches = st.lists(leaf, min_size=1, max_size=24)
shares = st.sampled_from([0, 1, 250_000, WHOLE, 3_333_333])
floors = st.integers(1, 9)
sums = st.integers(0, 2**64 - 1)
all_totals = st.builds(Totals, requests=st.integers(1, 4_096), tokens_in=sums, tokens_out=sums, top=st.just(bytes(32)))


@pytest.mark.parametrize(
    ("requests", "leaves"),
    [(1, 1), (2, 1), (32, 1), (33, 2), (64, 2), (65, 3), (256, 8), (480, 15), (481, 16), (512, 16), (4_096, 16)],
)
def test_how_many_leaves_are_looked_at(requests: int, leaves: int) -> None:
    assert leaves_to_check(requests) == leaves


@pytest.mark.parametrize(
    ("allowed", "requests", "floor"), [(1, 1, 1), (2, 1, 1), (3, 1, 2), (1_000, 10, 50), (1_001, 10, 51), (1, 4_096, 1)]
)
def test_the_floor(allowed: int, requests: int, floor: int) -> None:
    assert weight_floor(allowed, requests) == floor


def weights(leaves: list[Leaf], floor: int, share: int) -> list[int]:
    return [WHOLE * (leaf.tokens_out + floor) + share * leaf.tokens_in for leaf in leaves]


@given(leaves=batches, floor=floors, share=shares, data=st.data())
def test_each_point_names_exactly_one_leaf(leaves: list[Leaf], floor: int, share: int, data: st.DataObject) -> None:
    totals, line = totals_of(leaves), weights(leaves, floor, share)
    point = data.draw(st.integers(0, sum(line) - 1))
    index = index_at(leaves, floor, point, input_share=share)
    assert sum(line[:index]) <= point < sum(line[: index + 1])
    paths = [leaf_path(leaves, at) for at in range(len(leaves))]
    assert [path.index for path in paths if covers(totals, floor, path, point, input_share=share)] == [index]


@given(leaves=batches, floor=floors, share=shares)
def test_leaves_begin_where_the_one_before_ends(leaves: list[Leaf], floor: int, share: int) -> None:
    line = weights(leaves, floor, share)
    ends = [0, *(sum(line[: index + 1]) for index in range(len(line)))]
    for index, (start, end) in enumerate(pairwise(ends)):
        assert index_at(leaves, floor, start, input_share=share) == index
        assert index_at(leaves, floor, end - 1, input_share=share) == index
    for point in (-1, ends[-1]):
        with pytest.raises(ValueError, match=f"at point {point}:"):
            index_at(leaves, floor, point, input_share=share)
        path = leaf_path(leaves, 0 if point < 0 else len(leaves) - 1)
        assert not covers(totals_of(leaves), floor, path, point, input_share=share)


@given(leaves=batches, floor=floors, data=st.data())
def test_a_path_that_does_not_hold_covers_nothing(leaves: list[Leaf], floor: int, data: st.DataObject) -> None:
    """More tokens, or fewer to its left, would move a leaf under any point."""
    totals = totals_of(leaves)
    point = data.draw(st.integers(0, sum(weights(leaves, floor, WHOLE)) - 1))
    path = leaf_path(leaves, data.draw(st.integers(0, len(leaves) - 1)))
    assert not covers(totals, floor, replace(path, tokens_out=path.tokens_out + 1_000), point)
    for place, sibling in enumerate(path.siblings):
        moved = replace(sibling, tokens_in=sibling.tokens_in + 1_000)
        siblings = (*path.siblings[:place], moved, *path.siblings[place + 1 :])
        assert not covers(totals, floor, replace(path, siblings=siblings), point)


def test_points_by_hand() -> None:
    totals = Totals(33, 10, 20, bytes(32))
    for share, total in ((WHOLE, 96 * WHOLE), (0, 86 * WHOLE), (500_000, 91 * WHOLE)):
        by_hand = [
            int.from_bytes(blake2_256(b"ogpu/leaf-draw/1" + SEED + UNIT + number), "big") * total >> 256
            for number in (bytes(4), bytes([1, 0, 0, 0]))
        ]
        assert drawn_points(SEED, UNIT, totals, 2, input_share=share) == tuple(by_hand)


@given(totals=all_totals, floor=floors, share=shares)
def test_points_lie_on_the_line(totals: Totals, floor: int, share: int) -> None:
    points = drawn_points(SEED, UNIT, totals, floor, input_share=share)
    assert len(points) == leaves_to_check(totals.requests)
    total = WHOLE * (totals.tokens_out + floor * totals.requests) + share * totals.tokens_in
    assert all(0 <= point < total for point in points)


def test_seed_and_unit_and_number_change_a_point() -> None:
    totals = Totals(4_096, 2**60, 2**60, bytes(32))
    points = {
        *drawn_points(SEED, UNIT, totals, 1),
        *drawn_points(UNIT, UNIT, totals, 1),
        *drawn_points(SEED, SEED, totals, 1),
    }
    assert len(points) == 3 * 16


@pytest.mark.parametrize(
    ("seed", "unit", "totals", "floor"),
    [
        (SEED, UNIT, Totals(2, 0, 0, bytes(32)), 0),
        (SEED[1:], UNIT, Totals(2, 1, 1, bytes(32)), 1),
        (SEED, UNIT[1:], Totals(2, 1, 1, bytes(32)), 1),
        (SEED[1:], UNIT[1:], Totals(2, 1, 1, bytes(32)), 1),
    ],
)
def test_draws_of_nothing(seed: bytes, unit: bytes, totals: Totals, floor: int) -> None:
    with pytest.raises(ValueError, match="batch with weight"):
        drawn_points(seed, unit, totals, floor)


@pytest.mark.parametrize("share", [0, 250_000, WHOLE])
def test_leaves_are_drawn_as_often_as_they_weigh(share: int) -> None:
    """20,000 seeded draws: each leaf is within four standard deviations of its expected frequency."""
    leaves = [Leaf(*tokens, bytes(32)) for tokens in [(0, 0), (0, 30), (100, 5), (7, 200), (40, 0)]]
    totals, floor, draws = totals_of(leaves), 10, 20_000
    drawn: Counter[int] = Counter()
    for number in range(draws):
        points = drawn_points(blake2_256(number.to_bytes(4, "little")), UNIT, totals, floor, input_share=share)
        drawn.update(index_at(leaves, floor, point, input_share=share) for point in points)
    line = weights(leaves, floor, share)
    for index, weight in enumerate(line):
        off = drawn[index] * sum(line) - draws * weight  # in parts of the whole line
        assert off**2 <= 16 * draws * weight * (sum(line) - weight)
