"""A leaf names chain, unit, salt, place and outcome. Lists of leaves are compared and published."""

from hypothesis import strategies as st

from gpu_tasks.batches.leaves import Leaf, leaf_of, leaves_of
from gpu_tasks.batches.outcomes import OUTCOME, Completed, RefusedRequest
from runtime.cryptography.hashing import blake2_256

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
