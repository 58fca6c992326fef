"""Evidence: two signed statements that no honest validator makes, checked by anyone.

E1 two headers by one author in one slot; E2 two proposals by one member for one round; E3 two
notarise (or two finalise) ballots in one round; E4 a finalise and a skip in one round.
Always: verification needs the two statements and the set of the epoch that they name, whoever holds office since; an
honest key, which signs what `signstate` allows, can never be shown at fault.
"""

from typing import Annotated

from consensus.validators import ValidatorSet
from consensus.votes import (
    Ballot,
    BallotKind,
    Key,
    Proposal,
    SignedBallot,
    VerifyEd25519,
    ballot_payload,
    proposal_payload,
)
from runtime.blocks.block import HEADER, HEADER_BYTES_MAX, Header, block_id, seal_payload
from runtime.blocks.digest import find_pre_digest, split_seal
from runtime.encoding.codec import U64, Bounded, Codec, DecodeError, Tagged, codec, variant
from runtime.encoding.types import Signature


@variant(1)
class DoubleHeader:
    """E1: two sealed headers with different ids, by one author in one slot."""

    accused: Key
    slot: U64
    first: Annotated[bytes, Bounded(HEADER_BYTES_MAX)]
    second: Annotated[bytes, Bounded(HEADER_BYTES_MAX)]


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
    """Whether no honest voter casts both: E3 (one kind, two contents) or E4 (finalise, skip)."""
    if (first.epoch, first.round) != (second.epoch, second.round):
        return False
    if first.kind == second.kind:
        return first != second
    return {first.kind, second.kind} == {BallotKind.FINALISE, BallotKind.SKIP}


def double_ballot(first: SignedBallot, second: SignedBallot) -> DoubleBallot:
    """Evidence from two ballots of one voter, in one order, so that it is reported once."""
    lower, upper = sorted((first, second), key=lambda vote: (vote.ballot.kind, vote.ballot.block))
    return DoubleBallot(first.voter, lower.ballot, lower.signature, upper.ballot, upper.signature)


def verify_votes(
    evidence: DoubleProposal | DoubleBallot, members: ValidatorSet, genesis: bytes, verify: VerifyEd25519
) -> bool:
    """Whether E2, E3 or E4 proves its accused at fault, a member of the set of the epoch that the statements name.

    For E2 it does not matter whose turn the round was: no honest member signs two proposals for one round.
    """
    first, second = evidence.first, evidence.second
    if first.epoch != members.epoch or evidence.accused not in members.index:
        return False
    if isinstance(first, Proposal) and isinstance(second, Proposal):
        is_offence = first != second and (first.epoch, first.round) == (second.epoch, second.round)
        payloads = proposal_payload(genesis, first), proposal_payload(genesis, second)
    else:
        assert isinstance(first, Ballot)  # the fields of a `DoubleBallot`
        assert isinstance(second, Ballot)
        is_offence = are_exclusive(first, second)
        payloads = ballot_payload(genesis, first), ballot_payload(genesis, second)
    signatures = evidence.first_signature, evidence.second_signature
    return is_offence and all(
        verify(evidence.accused, payload, signature) for payload, signature in zip(payloads, signatures, strict=True)
    )


def verify_headers(evidence: DoubleHeader, genesis: bytes, verify: VerifyEd25519) -> bool:
    """Whether E1 proves its accused at fault: two sealed headers of its own in the named slot."""
    try:
        first, second = HEADER.decode(evidence.first), HEADER.decode(evidence.second)
        return block_id(first) != block_id(second) and all(
            _is_sealed(header, evidence, genesis, verify) for header in (first, second)
        )
    except DecodeError:
        return False


def _is_sealed(header: Header, evidence: DoubleHeader, genesis: bytes, verify: VerifyEd25519) -> bool:
    digest, signature = split_seal(header.digest)
    pre_digest = find_pre_digest(digest)
    if pre_digest is None or pre_digest.slot != evidence.slot:
        return False
    return verify(evidence.accused, seal_payload(genesis, header), signature)
