"""Handoffs: the next validator set in an epoch's last header, signed by the current set.

A reader that knows the set V_e of epoch e and receives its handoff knows V_(e+1), and so on from the genesis to the
tip. Joining nodes, wallets and bridges use it. They need no other block of these epochs, and trust only more than two
thirds of each set in turn.

Invariant: `follow` returns a set only if more than two thirds of V_e made the boundary's header final, and the header
names exactly these seats.
"""

from typing import Annotated

from consensus.certificates import Certificate, verify_certificate
from consensus.parameters import Parameters
from consensus.validators import Validator, ValidatorSet
from runtime.blocks.block import HEADER, HEADER_BYTES_MAX, block_id
from runtime.blocks.digest import NextValidators, consensus_logs
from runtime.blocks.votes import BallotKind, VerifyEd25519
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import Bounded, Codec, DecodeError, codec, struct
from runtime.pallets.staking.stakers import Seat, Seats


class InvalidHandoffError(Exception):
    """The handoff does not lead from this set to the next. The message gives the reason."""


@struct
class Handoff:
    """The header of an epoch's last block, its finalise certificate, and the seats of the next epoch."""

    header: Annotated[bytes, Bounded(HEADER_BYTES_MAX)]
    certificate: Certificate
    seats: Seats


HANDOFF: Codec[Handoff] = codec(Handoff)
_SEATS = codec(Seats)


def seats_of(validators: ValidatorSet) -> tuple[Seat, ...]:
    """Return a set in the form that the chain's state stores."""
    return tuple(Seat(member.stash, member.session, member.vrf, member.weight) for member in validators.members)


def seats_log(seats: tuple[Seat, ...]) -> NextValidators:
    """Return the digest item of an epoch's last header for the next epoch's seats."""
    return NextValidators(blake2_256(_SEATS.encode(seats)))


def follow(
    validators: ValidatorSet,
    handoff: Handoff,
    parameters: Parameters,
    genesis_hash: bytes,
    verify_signature: VerifyEd25519,
) -> ValidatorSet:
    """Return the set after `validators`, as their handoff proves it.

    Raise InvalidHandoffError if the handoff proves no set.
    """
    try:
        header = HEADER.decode(handoff.header)
        named_sets = [
            digest_item for digest_item in consensus_logs(header.digest) if isinstance(digest_item, NextValidators)
        ]
    except DecodeError as error:
        raise InvalidHandoffError(f"malformed header: {error}") from error
    ballot = handoff.certificate.ballot
    boundary = (BallotKind.FINALISE, parameters.boundary(validators.epoch), block_id(header))
    _require(header.number == parameters.boundary(validators.epoch), "header of another block than the epoch's last")
    _require((ballot.kind, ballot.height, ballot.block) == boundary, "certificate for another block or kind")
    # Before the signatures: a hash is checked in a hundredth of the time.
    _require(named_sets == [seats_log(handoff.seats)], "seats differ from the header")
    _require(verify_certificate(handoff.certificate, validators, genesis_hash, verify_signature), "invalid certificate")
    try:
        following = tuple(Validator(seat.stash, seat.session_key, seat.vrf_key, seat.weight) for seat in handoff.seats)
        return ValidatorSet(validators.epoch + 1, following)
    except ValueError as error:
        raise InvalidHandoffError(f"invalid seats: {error}") from error


def _require(is_valid: bool, reason: str) -> None:
    if not is_valid:
        raise InvalidHandoffError(reason)
