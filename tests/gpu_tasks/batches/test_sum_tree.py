"""One root for the leaves of a batch, their number, order and sums, and a path for each leaf at its place only."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.batches.sum_tree import Totals, batch_root, leaf_claim, totals_of
from runtime.cryptography.hashing import blake2_256

DOMAIN = b"batch\0\0\0"
U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1
hashes = st.binary(min_size=32, max_size=32)
tokens = st.one_of(st.integers(0, 3), st.integers(0, U32_MAX))
leaf = st.builds(Leaf, tokens_in=tokens, tokens_out=tokens, digest=hashes)
batches = st.lists(leaf, min_size=1, max_size=40)


def u64(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)


def leaf_hash(index: int, item: Leaf) -> bytes:
    tokens = u64(item.tokens_in, item.tokens_out)
    return blake2_256(DOMAIN + b"\0" + index.to_bytes(4, "little") + tokens + item.digest)


def inner_hash(left: bytes, left_sums: tuple[int, int], right: bytes, right_sums: tuple[int, int]) -> bytes:
    return blake2_256(DOMAIN + b"\1" + left + u64(*left_sums) + right + u64(*right_sums))


A, B, C = Leaf(1, 2, bytes([1]) * 32), Leaf(10, 20, bytes([2]) * 32), Leaf(100, 200, bytes([3]) * 32)


def test_a_tree_of_three_by_hand() -> None:
    a, b, c = leaf_hash(0, A), leaf_hash(1, B), leaf_hash(2, C)
    ab = inner_hash(a, (1, 2), b, (10, 20))
    top = inner_hash(ab, (11, 22), c, (100, 200))
    totals = totals_of([A, B, C])
    assert totals == Totals(3, 111, 222, top)
    assert batch_root(totals) == blake2_256(DOMAIN + b"\2" + (3).to_bytes(4, "little") + u64(111, 222) + top)


def test_a_tree_of_one_by_hand() -> None:
    assert totals_of([A]) == Totals(1, 1, 2, leaf_hash(0, A))


@given(leaves=batches)
def test_the_totals_are_the_sums(leaves: list[Leaf]) -> None:
    totals = totals_of(leaves)
    assert totals.requests == len(leaves)
    assert totals.tokens_in == sum(leaf.tokens_in for leaf in leaves)
    assert totals.tokens_out == sum(leaf.tokens_out for leaf in leaves)


@given(first=batches, second=batches)
def test_other_leaves_have_another_root(first: list[Leaf], second: list[Leaf]) -> None:
    assert (batch_root(totals_of(first)) == batch_root(totals_of(second))) == (first == second)


@given(leaves=batches, data=st.data())
def test_a_root_binds_number_and_order(leaves: list[Leaf], data: st.DataObject) -> None:
    root = batch_root(totals_of(leaves))
    other = data.draw(st.permutations(leaves))
    assert (batch_root(totals_of(other)) == root) == (other == leaves)
    assert batch_root(totals_of([*leaves, leaves[-1]])) != root
    assert batch_root(totals_of([*leaves, Leaf(0, 0, bytes(32))])) != root


def flipped(data: bytes, bit: int) -> bytes:
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


@given(leaves=batches)
def test_every_bit_of_the_totals_is_bound(leaves: list[Leaf]) -> None:
    totals = totals_of(leaves)
    root = batch_root(totals)
    assert all(batch_root(changed) != root for changed in changed_totals(totals))


def changed_totals(totals: Totals) -> list[Totals]:
    """Yield all totals that differ in one bit."""
    return (
        [replace(totals, requests=totals.requests ^ 1 << bit) for bit in range(32)]
        + [replace(totals, tokens_in=totals.tokens_in ^ 1 << bit) for bit in range(64)]
        + [replace(totals, tokens_out=totals.tokens_out ^ 1 << bit) for bit in range(64)]
        + [replace(totals, top=flipped(totals.top, bit)) for bit in range(256)]
    )


def test_a_batch_has_1_to_4096_leaves() -> None:
    with pytest.raises(ValueError, match=r"not 0$"):
        totals_of([])
    with pytest.raises(ValueError, match=r"not 4097$"):
        totals_of([A] * (REQUESTS_MAX + 1))


def test_a_claim_by_hand() -> None:
    claim = blake2_256(DOMAIN + b"\3" + leaf_hash(1, B) + u64(10, 20))
    assert leaf_claim(1, B) == claim


def test_the_largest_batch() -> None:
    leaves = [Leaf(U32_MAX, U32_MAX, index.to_bytes(32, "little")) for index in range(REQUESTS_MAX)]
    assert totals_of(leaves).tokens_out == REQUESTS_MAX * U32_MAX
