"""The leaves of a batch: the tokens of each outcome in plain, and a salted hash of the outcome.

The salt of the sealed input goes into the hash, with chain, unit and place. A provider that has not computed the
outcome can neither guess the hash nor copy it from another unit or place.
"""

from collections.abc import Sequence
from typing import Annotated

from gpu_tasks.batches.outcomes import BatchOutcome, Completed
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U32, Fixed, codec, struct
from runtime.encoding.types import Hash


@struct
class Leaf:
    """The part of an outcome in the tree: the tokens to pay for, and the salted hash."""

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


def leaf_of(genesis: bytes, unit: bytes, salt: bytes, index: int, outcome: BatchOutcome) -> Leaf:
    """Return the leaf of the outcome of request `index`. The leaf of a refused request has no tokens."""
    leaf_digest = blake2_256(domain(b"leaf", genesis, _BODY.encode(_LeafBody(unit, salt, index, outcome))))
    if isinstance(outcome, Completed):
        return Leaf(outcome.tokens_in, outcome.tokens_out, leaf_digest)
    # A refusal earns nothing, and its digest still lets it be drawn and checked.
    return Leaf(0, 0, leaf_digest)


def leaves_of(genesis: bytes, unit: bytes, salt: bytes, outcomes: Sequence[BatchOutcome]) -> tuple[Leaf, ...]:
    """Return the leaves of a whole batch, in the order of its requests."""
    return tuple(leaf_of(genesis, unit, salt, index, outcome) for index, outcome in enumerate(outcomes))
