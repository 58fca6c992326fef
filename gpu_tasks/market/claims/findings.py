"""The statements about the items of a claim: samples, a checker's finding, a voter's vote, and commitments to them.

A sample shows that its author computed an item. It has the item's weight and a fingerprint at a seed that nobody knew
before the draw (`gpu_tasks/workloads/fingerprints.py`). A commitment binds its author and a salt, so nobody can open a
copied one.
"""

from enum import IntEnum
from typing import Annotated

from gpu_tasks.batches.item_draws import POINTS_MAX
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, U32, U64, Bounded, Fixed, codec, named, struct
from runtime.encoding.types import AccountId, Hash

FINGERPRINT_BYTES = 16
POINTS_DRAWN_MAX = POINTS_MAX + 1
"""The most points of one draw: the last part of the line may be a short one."""
SEEDS_MAX = 3
"""The seeds of a vote: those of two checkers, and one that is new."""
NO_ANSWER = bytes(32)


@named("ogpu::Verdict")
class Verdict(IntEnum):
    """The answer to the question whether an item of a claim is right."""

    RIGHT = 0
    WRONG = 1
    UNAVAILABLE = 2
    """The item, its proof, the input or the model could not be fetched."""


@struct
class ItemSample:
    """An item as its author computed it."""

    index: U32
    weight: U64
    """The work that the item claims, in millionths of an output token, with its floor."""
    fingerprint: Annotated[bytes, Fixed(FINGERPRINT_BYTES)]
    """Of the computation, or zeros for a request that the workload refuses."""


Samples = Annotated[tuple[ItemSample, ...], Bounded(POINTS_DRAWN_MAX)]
"""A sample for each point of a draw, in the order of the points. Two points may be in one item."""


@struct
class Finding:
    """A checker's statement about the drawn items."""

    verdict: Verdict
    place: U8
    """The number of the point whose item is wrong or unavailable, else 0."""
    samples: Samples
    """The checker's own samples if the verdict is `RIGHT`, else none."""


@struct
class ItemVote:
    """A voter's statement about one item."""

    verdict: Verdict
    answer: Hash
    """The right claim of the item: the root of a result with one item, else its `sum_tree.leaf_claim`."""
    samples: Annotated[tuple[ItemSample, ...], Bounded(SEEDS_MAX)]
    """The right sample of the item at each seed of the dispute, in their order."""


CANNOT_FETCH = ItemVote(Verdict.UNAVAILABLE, NO_ANSWER, ())
"""The vote of a voter that could not fetch the item."""


@struct
class _FindingBody:
    claim: Hash
    check: U8
    checker: AccountId
    finding: Finding
    salt: Hash


@struct
class _VoteBody:
    dispute: Hash
    round: U8
    voter: AccountId
    vote: ItemVote
    salt: Hash


_FINDING, _VOTE = codec(_FindingBody), codec(_VoteBody)


def finding_commitment(
    genesis: bytes, claim: bytes, check: int, checker: bytes, finding: Finding, salt: bytes
) -> bytes:
    """Return the 32 bytes that `checker` (its stash) commits to in check number `check` of a claim."""
    return blake2_256(domain(b"finding", genesis, _FINDING.encode(_FindingBody(claim, check, checker, finding, salt))))


def vote_commitment(
    genesis: bytes, dispute: bytes, voting_round: int, voter: bytes, vote: ItemVote, salt: bytes
) -> bytes:
    """Return the 32 bytes that `voter` (its stash) commits to in a round of a dispute."""
    return blake2_256(domain(b"vote", genesis, _VOTE.encode(_VoteBody(dispute, voting_round, voter, vote, salt))))


def seed_of(beacon: bytes, case: bytes, author: bytes) -> bytes:
    """Return the seed of an author's samples: that of a checker for its claim, or of all voters for a dispute."""
    return blake2_256(b"ogpu/sample-seed" + beacon + case + author)


def distinct_weight(samples: tuple[ItemSample, ...]) -> int:
    """Return the weight of the sampled items, each counted once."""
    return sum(weight for _, weight in dict.fromkeys((sample.index, sample.weight) for sample in samples))
