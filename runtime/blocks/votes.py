"""Proposals and ballots of the finality gadget, and their signed bytes.

Invariant: a statement contains its epoch and round, and only statements of equal (epoch, round) compare. The signed
bytes are domain-separated by kind and genesis hash.
"""

from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache

from runtime.cryptography.signing import domain
from runtime.encoding.codec import U32, Annotated, Codec, Fixed, codec, struct
from runtime.encoding.types import Hash, Signature

Key = Annotated[bytes, Fixed(32)]

NO_BLOCK = bytes(32)

# Maps (public key, signed bytes, signature) to True if the signature is valid. The node passes the
# ed25519 rule of `runtime.cryptography.signatures`. The simulator may pass a cheap substitute.
VerifyEd25519 = Callable[[bytes, bytes, bytes], bool]


class BallotKind(IntEnum):
    """The three ballots of a round."""

    NOTARISE = 1
    FINALISE = 2
    SKIP = 3


_LABELS = {BallotKind.NOTARISE: b"notarise", BallotKind.FINALISE: b"finalise", BallotKind.SKIP: b"skip"}


@struct
class Proposal:
    """The leader of (epoch, round) proposes a block, building on the round `parent_round`."""

    epoch: U32
    round: U32
    parent_round: U32
    height: U32
    block: Hash


@struct
class SignedProposal:
    """A proposal with its leader's signature. The leader follows from epoch and round."""

    proposal: Proposal
    signature: Signature


@struct
class Ballot:
    """The content of one vote. A skip names no block."""

    kind: BallotKind
    epoch: U32
    round: U32
    height: U32
    block: Hash


@struct
class SignedBallot:
    """A ballot, the session key that cast it, and its signature."""

    ballot: Ballot
    voter: Key
    signature: Signature


_BALLOT: Codec[Ballot] = codec(Ballot)
_PROPOSAL: Codec[Proposal] = codec(Proposal)


def skip_ballot(epoch: int, round_number: int) -> Ballot:
    """Return the ballot that skips a round."""
    return Ballot(BallotKind.SKIP, epoch, round_number, 0, NO_BLOCK)


# All voters of a ballot sign the same bytes.
@lru_cache(maxsize=4096)
def ballot_payload(genesis_hash: bytes, ballot: Ballot) -> bytes:
    """Return the bytes that a voter signs."""
    return domain(_LABELS[ballot.kind], genesis_hash, _BALLOT.encode(ballot))


@lru_cache(maxsize=1024)
def proposal_payload(genesis_hash: bytes, proposal: Proposal) -> bytes:
    """Return the bytes that a leader signs."""
    return domain(b"propose", genesis_hash, _PROPOSAL.encode(proposal))
