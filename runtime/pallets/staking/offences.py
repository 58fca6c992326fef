"""Offences against consensus, proven by evidence: judged by the sets of the statements' epochs.

Invariant: an offender is judged by its keys at that time, for any reporter, even after it has left the set. A statement
about an epoch without a known set proves nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from runtime.blocks.evidence import DoubleBallot, DoubleHeader, DoubleProposal, are_signed
from runtime.blocks.votes import Ballot
from runtime.cryptography.signatures import verify_ed25519
from runtime.encoding.codec import U32, Bounded, struct
from runtime.encoding.types import AccountId, Balance
from runtime.pallets.staking.double_headers import double_proposal
from runtime.pallets.staking.double_headers import named_epochs as epochs_of_headers
from runtime.pallets.staking.stakers import VALIDATORS_MAX, EraIndex, Seats


class Offence(IntEnum):
    """The kinds of offences: acts allowed once in a slot or a round, and done twice."""

    TWO_HEADERS = 1
    TWO_PROPOSALS = 2
    TWO_BALLOTS = 3
    FINALISED_AND_SKIPPED = 4


@dataclass(frozen=True, slots=True)
class ProvenOffence:
    """A proven offence, with its slot (of headers) or round (of votes), and its epoch."""

    offender: bytes
    kind: Offence
    at: int
    epoch: int


@struct
class Offender:
    """An offender of the current unbonding window, and the part of its stake slashed so far."""

    stash: AccountId
    epoch: U32
    era: EraIndex
    weight: Balance
    """The weight of its seat in the set of that epoch."""
    slashed_ppm: U32
    total: Balance
    """The weight of all seats of that set."""


Offenders = Annotated[tuple[Offender, ...], Bounded(VALIDATORS_MAX)]


def proven(
    evidence: DoubleHeader | DoubleProposal | DoubleBallot, genesis_hash: bytes, validators: Callable[[int], Seats]
) -> ProvenOffence | None:
    """Return the offence that evidence proves, None if it proves none. `validators` returns the set of an epoch."""
    if isinstance(evidence, DoubleHeader):
        return _two_headers(evidence, genesis_hash, validators)
    epoch = evidence.first.epoch
    offender = next(
        (seat.stash for seat in validators(epoch) if seat.session_key == evidence.accused),
        None,
    )
    if offender is None or not are_signed(evidence, genesis_hash, verify_ed25519):
        return None
    return ProvenOffence(offender, _kind_of(evidence), evidence.first.round, epoch)


def judging_epochs(evidence: DoubleHeader | DoubleProposal | DoubleBallot) -> tuple[int, ...]:
    """Return the epochs whose sets judge evidence, () if it names none."""
    if isinstance(evidence, DoubleHeader):
        return epochs_of_headers(evidence.first, evidence.second)
    return (evidence.first.epoch,)


def _two_headers(
    evidence: DoubleHeader, genesis_hash: bytes, validators: Callable[[int], Seats]
) -> ProvenOffence | None:
    def session_key(stash: bytes, epoch: int) -> bytes | None:
        return next(
            (seat.session_key for seat in validators(epoch) if seat.stash == stash),
            None,
        )

    double_header = double_proposal(evidence.first, evidence.second, genesis_hash, session_key)
    return (
        None
        if double_header is None
        else ProvenOffence(double_header.author, Offence.TWO_HEADERS, double_header.slot, double_header.epoch)
    )


def _kind_of(evidence: DoubleProposal | DoubleBallot) -> Offence:
    first, second = evidence.first, evidence.second
    if not isinstance(first, Ballot) or not isinstance(second, Ballot):
        return Offence.TWO_PROPOSALS
    # Exclusive ballots of different kinds are always a finalise and a skip.
    return Offence.TWO_BALLOTS if first.kind == second.kind else Offence.FINALISED_AND_SKIPPED
