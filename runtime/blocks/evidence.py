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


def are_exclusive(first_ballot: Ballot, second_ballot: Ballot) -> bool:
    """Return True if no honest voter casts both: E3 (one kind, two contents) or E4 (finalise, skip)."""
    if (first_ballot.epoch, first_ballot.round) != (second_ballot.epoch, second_ballot.round):
        return False
    if first_ballot.kind == second_ballot.kind:
        return first_ballot != second_ballot
    # A notarise ballot excludes neither: an honest voter may follow it with a finalise or a skip.
    return {first_ballot.kind, second_ballot.kind} == {BallotKind.FINALISE, BallotKind.SKIP}


def double_ballot(first_ballot: SignedBallot, second_ballot: SignedBallot) -> DoubleBallot:
    """Return evidence from two ballots of one voter, sorted, so that the same offence has one form."""
    lower_ballot, upper_ballot = sorted(
        (first_ballot, second_ballot), key=lambda signed_ballot: (signed_ballot.ballot.kind, signed_ballot.ballot.block)
    )
    return DoubleBallot(
        first_ballot.voter, lower_ballot.ballot, lower_ballot.signature, upper_ballot.ballot, upper_ballot.signature
    )


def are_signed(evidence: DoubleProposal | DoubleBallot, genesis_hash: bytes, verify_signature: VerifyEd25519) -> bool:
    """Return True if the two statements of E2, E3 or E4 exclude each other and the accused key signed both.

    For E2 the round's leader does not matter: no honest member signs two proposals for one round.
    """
    first_statement, second_statement = evidence.first, evidence.second
    if isinstance(first_statement, Proposal) and isinstance(second_statement, Proposal):
        is_offence = first_statement != second_statement and (first_statement.epoch, first_statement.round) == (
            second_statement.epoch,
            second_statement.round,
        )
        payloads = proposal_payload(genesis_hash, first_statement), proposal_payload(genesis_hash, second_statement)
    else:
        assert isinstance(first_statement, Ballot)  # the fields of a `DoubleBallot`
        assert isinstance(second_statement, Ballot)
        is_offence = are_exclusive(first_statement, second_statement)
        payloads = ballot_payload(genesis_hash, first_statement), ballot_payload(genesis_hash, second_statement)
    signatures = evidence.first_signature, evidence.second_signature
    return is_offence and all(
        verify_signature(evidence.accused, payload, signature)
        for payload, signature in zip(payloads, signatures, strict=True)
    )
