"""A leaf names chain, unit, salt, place and outcome. Lists of leaves are compared and published."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.batches.leaves import Leaf, decode_leaves, encode_leaves, leaf_of, leaves_of
from gpu_tasks.batches.outcomes import OUTCOME, Completed, RefusedRequest
from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.batches.sum_tree import first_difference
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError, EncodeError

GENESIS, UNIT, SALT = (bytes([value]) * 32 for value in (1, 2, 3))
DONE = Completed(b"text", 7, 4)
hashes = st.binary(min_size=32, max_size=32)
leaf = st.builds(Leaf, tokens_in=st.integers(0, 9), tokens_out=st.integers(0, 9), digest=hashes)


def test_a_leaf_by_hand() -> None:
    body = UNIT + SALT + (5).to_bytes(4, "little") + OUTCOME.encode(DONE)
    digest = blake2_256(b"ogpu/1/leaf\0\0\0\0" + GENESIS + body)
    assert leaf_of(GENESIS, UNIT, SALT, 5, DONE) == Leaf(7, 4, digest)


def test_a_refused_request_has_no_tokens() -> None:
    refused = leaf_of(GENESIS, UNIT, SALT, 5, RefusedRequest())
    assert (refused.tokens_in, refused.tokens_out) == (0, 0)
    assert refused.digest != leaf_of(GENESIS, UNIT, SALT, 5, Completed(b"", 0, 0)).digest


def test_everything_that_a_leaf_names_changes_its_digest() -> None:
    other = bytes(32)
    leaves = [
        leaf_of(GENESIS, UNIT, SALT, 5, DONE),
        leaf_of(other, UNIT, SALT, 5, DONE),
        leaf_of(GENESIS, other, SALT, 5, DONE),
        leaf_of(GENESIS, UNIT, other, 5, DONE),
        leaf_of(GENESIS, UNIT, SALT, 6, DONE),
        leaf_of(GENESIS, UNIT, SALT, 5, Completed(b"texT", 7, 4)),
        leaf_of(GENESIS, UNIT, SALT, 5, Completed(b"text", 8, 4)),
        leaf_of(GENESIS, UNIT, SALT, 5, Completed(b"text", 7, 5)),
        leaf_of(GENESIS, UNIT, SALT, 5, RefusedRequest()),
    ]
    assert len({leaf.digest for leaf in leaves}) == len(leaves)


def test_the_leaves_of_a_batch_stand_in_its_order() -> None:
    assert leaves_of(GENESIS, UNIT, SALT, [DONE, RefusedRequest()]) == (
        leaf_of(GENESIS, UNIT, SALT, 0, DONE),
        leaf_of(GENESIS, UNIT, SALT, 1, RefusedRequest()),
    )


A, B, C = (Leaf(1, 1, bytes([value]) * 32) for value in (1, 2, 3))


@pytest.mark.parametrize(
    ("leaves", "others", "expected"),
    [
        ([A, B, C], [A, B, C], None),
        ([], [], None),
        ([A, B, C], [B, B, C], 0),
        ([A, B, C], [A, C, B], 1),
        ([A, B, C], [A, B, Leaf(2, 1, C.digest)], 2),
        ([A, B, C], [A, B, Leaf(1, 2, C.digest)], 2),
        ([A, B, C], [A, B], 2),
        ([A], [A, B, C], 1),
    ],
)
def test_where_two_lists_differ_first(leaves: list[Leaf], others: list[Leaf], expected: int | None) -> None:
    assert first_difference(leaves, others) == expected
    assert first_difference(others, leaves) == expected


@given(leaves=st.lists(leaf, min_size=1, max_size=20))
def test_published_lists_come_back_at_40_bytes_a_leaf(leaves: list[Leaf]) -> None:
    data = encode_leaves(leaves)
    assert len(data) == 1 + 40 * len(leaves)
    assert decode_leaves(data) == tuple(leaves)


def test_lists_that_are_none() -> None:
    with pytest.raises(EncodeError, match="4097 items"):
        encode_leaves([A] * (REQUESTS_MAX + 1))
    with pytest.raises(EncodeError, match="without leaves"):
        encode_leaves([])
    too_many = ((REQUESTS_MAX + 1) << 2 | 1).to_bytes(2, "little") + bytes(40 * (REQUESTS_MAX + 1))
    for data in (b"", bytes([0]), bytes([1 << 2]) + bytes(39), bytes([1 << 2]) + bytes(41), too_many):
        with pytest.raises(DecodeError):
            decode_leaves(data)
