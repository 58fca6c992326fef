"""Points on the line of the leaves: each names one leaf, shown by a path."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.batches.leaf_draws import WHOLE, index_at, weight_floor
from gpu_tasks.batches.leaves import Leaf

tokens = st.integers(0, 20)
leaf = st.builds(Leaf, tokens_in=tokens, tokens_out=tokens, digest=st.binary(min_size=32, max_size=32))
batches = st.lists(leaf, min_size=1, max_size=24)
shares = st.sampled_from([0, 1, 250_000, WHOLE, 3_333_333])
floors = st.integers(1, 9)


@pytest.mark.parametrize(
    ("allowed", "requests", "floor"), [(1, 1, 1), (2, 1, 1), (3, 1, 2), (1_000, 10, 50), (1_001, 10, 51), (1, 4_096, 1)]
)
def test_the_floor(allowed: int, requests: int, floor: int) -> None:
    assert weight_floor(allowed, requests) == floor


def weights(leaves: list[Leaf], floor: int, share: int) -> list[int]:
    return [WHOLE * (leaf.tokens_out + floor) + share * leaf.tokens_in for leaf in leaves]


@given(leaves=batches, floor=floors, share=shares, data=st.data())
def test_each_point_names_exactly_one_leaf(leaves: list[Leaf], floor: int, share: int, data: st.DataObject) -> None:
    line = weights(leaves, floor, share)
    point = data.draw(st.integers(0, sum(line) - 1))
    index = index_at(leaves, floor, point, input_share=share)
    assert sum(line[:index]) <= point < sum(line[: index + 1])


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
