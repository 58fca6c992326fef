"""Evidence: two signed statements that no honest validator makes, in reportable form.

* E1: two headers by one author in one slot
* E2: two proposals by one member for one round
* E3: two notarise (or two finalise) ballots in one round
* E4: a finalise and a skip in one round

Invariant: no evidence exists against an honest key, which signs only records that `consensus.signstate` allows. This
module does not check membership: callers know the set of the statements' epoch.
"""

from typing import Annotated

from runtime.blocks.block import HEADER_BYTES_MAX
from runtime.blocks.votes import (
    Ballot,
    BallotKind,
    Key,
    Proposal,
    SignedBallot,
    VerifyEd25519,
    ballot_payload,
    proposal_payload,
)
from runtime.encoding.codec import Bounded, Codec, Tagged, codec, variant
from runtime.encoding.types import Signature

SealedHeader = Annotated[bytes, Bounded(HEADER_BYTES_MAX)]


@variant(1)
class DoubleHeader:
    """E1: two sealed headers with different ids, by one author in one slot."""

    first: SealedHeader
    second: SealedHeader


@variant(2)
class DoubleProposal:
    """E2: two different proposals for one round, signed by one member."""

    accused: Key
    first: Proposal
    first_signature: Signature
    second: Proposal
    second_signature: Signature


@variant(3)
class DoubleBallot:
    """E3 or E4: two ballots of one voter in one round that exclude each other."""

    accused: Key
    first: Ballot
    first_signature: Signature
    second: Ballot
    second_signature: Signature


Evidence = Annotated[DoubleHeader | DoubleProposal | DoubleBallot, Tagged("ogpu::Evidence")]
EVIDENCE: Codec[DoubleHeader | DoubleProposal | DoubleBallot] = codec(Evidence)


def are_exclusive(first: Ballot, second: Ballot) -> bool:
    """Return True if no honest voter casts both: E3 (one kind, two contents) or E4 (finalise, skip)."""
    if (first.epoch, first.round) != (second.epoch, second.round):
        return False
    if first.kind == second.kind:
        return first != second
    # A notarise ballot excludes neither: an honest voter may follow it with a finalise or a skip.
    return {first.kind, second.kind} == {BallotKind.FINALISE, BallotKind.SKIP}


def double_ballot(first: SignedBallot, second: SignedBallot) -> DoubleBallot:
    """Return evidence from two ballots of one voter, sorted, so that the same offence has one form."""
    lower, upper = sorted((first, second), key=lambda signed: (signed.ballot.kind, signed.ballot.block))
    return DoubleBallot(first.voter, lower.ballot, lower.signature, upper.ballot, upper.signature)


def are_signed(evidence: DoubleProposal | DoubleBallot, genesis_hash: bytes, verify_signature: VerifyEd25519) -> bool:
    """Return True if the two statements of E2, E3 or E4 exclude each other and the accused key signed both.

    For E2 the round's leader does not matter: no honest member signs two proposals for one round.
    """
    first, second = evidence.first, evidence.second
    if isinstance(first, Proposal) and isinstance(second, Proposal):
        is_offence = first != second and (first.epoch, first.round) == (
            second.epoch,
            second.round,
        )
        payloads = proposal_payload(genesis_hash, first), proposal_payload(genesis_hash, second)
    else:
        assert isinstance(first, Ballot)  # the fields of a `DoubleBallot`
        assert isinstance(second, Ballot)
        is_offence = are_exclusive(first, second)
        payloads = ballot_payload(genesis_hash, first), ballot_payload(genesis_hash, second)
    signatures = evidence.first_signature, evidence.second_signature
    return is_offence and all(
        verify_signature(evidence.accused, payload, signature)
        for payload, signature in zip(payloads, signatures, strict=True)
    )
