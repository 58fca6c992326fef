"""The leaves of a batch: of each outcome its tokens, in the open, and a hash that says nothing about it.

The hash is salted with the salt of the sealed input and names chain, unit and place: who has not computed the outcome
can neither guess nor carry it over from another unit or another place.
"""

from collections.abc import Sequence
from typing import Annotated

from gpu_tasks.batches.outcomes import BatchOutcome, Completed
from gpu_tasks.batches.requests import REQUESTS_MAX
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U32, Bounded, DecodeError, EncodeError, Fixed, codec, struct
from runtime.encoding.types import Hash


@struct
class Leaf:
    """What the tree holds of an outcome: the tokens that are paid for, and its salted hash."""

    tokens_in: U32
    tokens_out: U32
    digest: Hash


@struct
class _LeafBody:
    unit: Annotated[bytes, Fixed(32)]
    salt: Annotated[bytes, Fixed(32)]
    index: U32
    outcome: BatchOutcome


_BODY = codec(_LeafBody)
_LEAVES = codec(Annotated[tuple[Leaf, ...], Bounded(REQUESTS_MAX)])


def leaf_of(genesis: bytes, unit: bytes, salt: bytes, index: int, outcome: BatchOutcome) -> Leaf:
    """The leaf of the outcome of request `index`; of a refused request with no tokens."""
    digest = blake2_256(domain(b"leaf", genesis, _BODY.encode(_LeafBody(unit, salt, index, outcome))))
    if isinstance(outcome, Completed):
        return Leaf(outcome.tokens_in, outcome.tokens_out, digest)
    return Leaf(0, 0, digest)


def leaves_of(genesis: bytes, unit: bytes, salt: bytes, outcomes: Sequence[BatchOutcome]) -> tuple[Leaf, ...]:
    """The leaves of a whole batch, in the order of its requests."""
    return tuple(leaf_of(genesis, unit, salt, index, outcome) for index, outcome in enumerate(outcomes))


def encode_leaves(leaves: Sequence[Leaf]) -> bytes:
    """The list that both sides of a dispute publish; EncodeError for none or more than `REQUESTS_MAX`."""
    if not leaves:
        raise EncodeError("a batch without a leaf: there is one for each request")
    return _LEAVES.encode(tuple(leaves))


def decode_leaves(data: bytes) -> tuple[Leaf, ...]:
    """A published list: 40 bytes a leaf; DecodeError if it is none, or has no leaf."""
    leaves: tuple[Leaf, ...] = _LEAVES.decode(data)
    if not leaves:
        raise DecodeError("a batch without a leaf")
    return leaves
