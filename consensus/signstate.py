"""The signing rules of a validator, given all its earlier signatures.

Invariant: a record that `after` allows is never evidence against its signer. The shell keeps the state in a file of its
own, and writes and fsyncs the new state before it signs. Signing the same content again is allowed, because ed25519
signatures are deterministic.
"""

from dataclasses import replace

from runtime.blocks.votes import Ballot, BallotKind, Proposal, ballot_payload, proposal_payload
from runtime.encoding.codec import U32, U64, Annotated, Bounded, Codec, codec, struct
from runtime.encoding.types import Hash

RECORDS_MAX = 65_536


class SigningRefusedError(Exception):
    """A refused signature: it would contradict an earlier one, as after copying a key or restoring an old backup."""


@struct
class HeaderRecord:
    """A header: its slot and the hash of the bytes that its seal signs."""

    slot: U64
    payload_hash: Hash


SignedRecord = HeaderRecord | Proposal | Ballot


@struct
class SignState:
    """The newest header, and all votes above `floor` (epoch, round). Nothing is signed at or below the floor."""

    header: HeaderRecord
    floor_epoch: U32
    floor_round: U32
    proposals: Annotated[tuple[Proposal, ...], Bounded(RECORDS_MAX)]
    ballots: Annotated[tuple[Ballot, ...], Bounded(RECORDS_MAX)]


SIGN_STATE: Codec[SignState] = codec(SignState)
EMPTY = SignState(HeaderRecord(0, bytes(32)), 0, 0, (), ())


def after(state: SignState, signed_record: SignedRecord) -> SignState:
    """Return the state after signing `signed_record`.

    Raise SigningRefusedError if the signature would contradict an earlier one.
    """
    match signed_record:
        case HeaderRecord(slot, _):
            # The identical header may be signed again: ed25519 is deterministic, so the signature is the same.
            if slot < state.header.slot or (slot == state.header.slot and signed_record != state.header):
                raise SigningRefusedError("a header of this or a later slot is signed already")
            return replace(state, header=signed_record)
        case Proposal():
            return _after_proposal(state, signed_record)
        case Ballot():
            return _after_ballot(state, signed_record)


def _after_proposal(state: SignState, signed_record: Proposal) -> SignState:
    _require_above_floor(state, signed_record.epoch, signed_record.round)
    for signed_vote in state.proposals:
        if (signed_vote.epoch, signed_vote.round) == (signed_record.epoch, signed_record.round):
            if signed_vote != signed_record:
                raise SigningRefusedError("another proposal of this round is signed already")
            return state
    return replace(state, proposals=(*state.proposals, signed_record))


def _after_ballot(state: SignState, signed_record: Ballot) -> SignState:
    _require_above_floor(state, signed_record.epoch, signed_record.round)
    # The same object tells the caller that there is nothing new to sign.
    if signed_record in state.ballots:
        return state
    for signed_vote in state.ballots:
        if (signed_vote.epoch, signed_vote.round) == (signed_record.epoch, signed_record.round):
            _require_compatible(signed_record.kind, signed_vote.kind)
    return replace(state, ballots=(*state.ballots, signed_record))


def raise_floor(state: SignState, epoch_number: int, round_number: int) -> SignState:
    """Return the state without votes at or below (epoch, round), which is final. Nothing is signed there again."""
    if (epoch_number, round_number) <= (state.floor_epoch, state.floor_round):
        return state
    return replace(
        state,
        floor_epoch=epoch_number,
        floor_round=round_number,
        proposals=tuple(
            signed_vote
            for signed_vote in state.proposals
            if (signed_vote.epoch, signed_vote.round) > (epoch_number, round_number)
        ),
        ballots=tuple(
            signed_vote
            for signed_vote in state.ballots
            if (signed_vote.epoch, signed_vote.round) > (epoch_number, round_number)
        ),
    )


def record_payload(genesis_hash: bytes, signed_record: Proposal | Ballot) -> bytes:
    """Return the bytes to sign for a vote. The shell builds a header's bytes, its seal payload."""
    match signed_record:
        case Proposal():
            return proposal_payload(genesis_hash, signed_record)
        case Ballot():
            return ballot_payload(genesis_hash, signed_record)


def _require_above_floor(state: SignState, epoch_number: int, round_number: int) -> None:
    if (epoch_number, round_number) <= (state.floor_epoch, state.floor_round):
        raise SigningRefusedError("this round is final")


def _require_compatible(kind: BallotKind, signed_kind: BallotKind) -> None:
    """Raise SigningRefusedError if `kind` excludes a ballot of kind `signed_kind` in the same round.

    After a notarise ballot one finalise or one skip is allowed, and nothing else. After a skip nothing is allowed, so a
    node that skips a round takes no further part in it.
    """
    if signed_kind != BallotKind.NOTARISE or kind == BallotKind.NOTARISE:
        raise SigningRefusedError("a conflicting ballot of this round is signed already")
