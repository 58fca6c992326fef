"""Slashes of stake that left a validator before its offence was proven: one factor for each offence.

Unlocking stake, and stake that moved behind another validator, is no longer in the offender's pool. It carries an
answer (`Liability`): the validator, the era in which it left, and the factors that it had borne by then. Its loss is
computed when the stake is next touched, which is always before it can move on.

The set of an era is elected in the previous era, so stake that leaves in that era stood behind it
(`SeatLedger.answering_era`).

Invariant: a factor only falls. The rest of an amount never exceeds its exact part, and is less than one grain too small
for each offence and each computation.
"""

from typing import Annotated

from runtime.encoding.codec import U32, U64, Bounded, struct
from runtime.encoding.types import AccountId
from runtime.pallets.staking.slashing import PPM

WHOLE = 10**18
"""The factor of an offence that took nothing. The scale is so fine that rounding costs all existing grains less than
one."""
FACTORS_MAX = 8
"""The most remembered offences of one validator. It cannot offend again before Root lifts its tombstone."""


@struct
class SlashStep:
    """A slash raised from `taken` to `wanted` millionths of the original stake."""

    taken: U32
    wanted: U32


@struct
class OffenceFactor:
    """The fraction that an offence left of the stake that answers for it."""

    era: U32
    """The first era whose leaving stake answers: it stood behind the offending seat."""
    keep: U64
    """The remaining fraction, out of WHOLE."""


Factors = Annotated[tuple[OffenceFactor, ...], Bounded(FACTORS_MAX)]


@struct
class Liability:
    """The answer of stake that left `validator` in `era`: for offences until then, and in the next era."""

    validator: AccountId
    era: U32
    borne: Factors
    """The factors known at that time, which the stake bore in its pool."""


def lost(staked_grains: int, step: SlashStep) -> int:
    """Return the loss of an amount by a step, rounded up. The amount has borne the earlier steps."""
    remaining_ppm = PPM - step.taken
    return -(-staked_grains * (step.wanted - step.taken) // remaining_ppm) if remaining_ppm else 0


def remembered(factors: Factors, era: int, step: SlashStep) -> Factors:
    """Return the factors after a step that reaches stake which left in `era` or later.

    Above `FACTORS_MAX` the oldest is dropped.
    """
    previous = next((factor.keep for factor in factors if factor.era == era), WHOLE)
    others = [factor for factor in factors if factor.era != era]
    ordered = sorted(
        [*others, OffenceFactor(era, previous - lost(previous, step))],
        key=lambda factor: factor.era,
    )
    return tuple(ordered[-FACTORS_MAX:])


def left_of(staked_grains: int, liability: Liability, factors: Factors) -> int:
    """Return the rest of an amount with an answer after these factors, rounded down."""
    borne = {factor.era: factor.keep for factor in liability.borne}
    for factor in factors:
        borne_keep = borne.get(factor.era, WHOLE)
        # Stake that left before the factor's era was not behind the offending seat.
        if factor.era <= liability.era and factor.keep < borne_keep:
            staked_grains = staked_grains * factor.keep // borne_keep
    return staked_grains
