"""What stake still bears that left a validator before its offence was known: a factor for each offence.

Stake that waits to leave, or went behind another validator, is in no pool of the offender's any more. It carries an
answer: for whose offences, since when it stands behind them no more, and how much of those it had borne when it left.
What a slash takes of it is reckoned when the stake is next touched, which it is before it can go anywhere.

The set of an era is elected the era before: who leaves in that one stood behind it (`SeatLedger.answering_era`).

Always: a factor only falls; what is left of an amount never exceeds its exact part, and lacks less than a grain of it
for each offence and each time that it is reckoned.
"""

from typing import Annotated

from runtime.encoding.codec import U32, U64, Bounded, struct
from runtime.encoding.types import AccountId
from runtime.pallets.staking.slashing import PPM

WHOLE = 10**18
"""The factor of an offence that took nothing: fine enough that all grains there are lose less than one to rounding."""
FACTORS_MAX = 8
"""Offences of one validator that are remembered: it cannot offend again before Root lifts its tombstone."""


@struct
class SlashStep:
    """A slash raised from `taken` to `wanted` millionths of what stood there before any of it was taken."""

    taken: U32
    wanted: U32


@struct
class OffenceFactor:
    """What an offence left of the stake that answers for it."""

    era: U32
    """Who left in this era or later stood behind the seat that offended."""
    keep: U64
    """Out of WHOLE."""


Factors = Annotated[tuple[OffenceFactor, ...], Bounded(FACTORS_MAX)]


@struct
class Liability:
    """Stake that left `validator` in `era` answers for what it did until then, and in the era after."""

    validator: AccountId
    era: U32
    borne: Factors
    """What was known then: the stake had borne that in its pool."""


def lost(amount: int, step: SlashStep) -> int:
    """What a step takes of an amount that bore the steps before it, rounded up."""
    left = PPM - step.taken
    return -(-amount * (step.wanted - step.taken) // left) if left else 0


def remembered(factors: Factors, era: int, step: SlashStep) -> Factors:
    """The factors after a step that reaches who left in `era` or later; the oldest goes where there are too many."""
    before = next((factor.keep for factor in factors if factor.era == era), WHOLE)
    others = [factor for factor in factors if factor.era != era]
    ordered = sorted([*others, OffenceFactor(era, before - lost(before, step))], key=lambda factor: factor.era)
    return tuple(ordered[-FACTORS_MAX:])


def left_of(amount: int, answer: Liability, factors: Factors) -> int:
    """What is left of an amount that carries an answer, rounded down."""
    borne = {factor.era: factor.keep for factor in answer.borne}
    for factor in factors:
        before = borne.get(factor.era, WHOLE)
        if factor.era <= answer.era and factor.keep < before:
            amount = amount * factor.keep // before
    return amount
