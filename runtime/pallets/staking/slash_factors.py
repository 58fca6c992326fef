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


def lost(staked_grains: int, slash_step: SlashStep) -> int:
    """Return the loss of an amount by a step, rounded up. The amount has borne the earlier steps."""
    remaining_ppm = PPM - slash_step.taken
    return -(-staked_grains * (slash_step.wanted - slash_step.taken) // remaining_ppm) if remaining_ppm else 0


def remembered(factors: Factors, era_number: int, slash_step: SlashStep) -> Factors:
    """Return the factors after a step that reaches stake which left in `era_number` or later.

    Above `FACTORS_MAX` the oldest is dropped.
    """
    previous_keep = next((known_factor.keep for known_factor in factors if known_factor.era == era_number), WHOLE)
    other_factors = [known_factor for known_factor in factors if known_factor.era != era_number]
    ordered_factors = sorted(
        [*other_factors, OffenceFactor(era_number, previous_keep - lost(previous_keep, slash_step))],
        key=lambda known_factor: known_factor.era,
    )
    return tuple(ordered_factors[-FACTORS_MAX:])


def left_of(staked_grains: int, liability: Liability, factors: Factors) -> int:
    """Return the rest of an amount with an answer after these factors, rounded down."""
    borne_by_era = {known_factor.era: known_factor.keep for known_factor in liability.borne}
    for known_factor in factors:
        borne_keep = borne_by_era.get(known_factor.era, WHOLE)
        # Stake that left before the factor's era was not behind the offending seat.
        if known_factor.era <= liability.era and known_factor.keep < borne_keep:
            staked_grains = staked_grains * known_factor.keep // borne_keep
    return staked_grains
