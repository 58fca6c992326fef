"""Whose stake stands behind a validator in an era: election, rewards and slashes are read off it.

Always: an exposure's total is the sum of its parts; shares of a reward add up to the reward; a
slash takes from everyone exposed the same fraction, rounded down.
"""

from collections.abc import Sequence
from typing import Annotated

from runtime.encoding.codec import U32, Bounded, struct
from runtime.encoding.types import AccountId, Balance
from runtime.pallets.staking.slashing import Share, part

DELEGATORS_PER_VALIDATOR_MAX = 256


@struct
class Backing:
    """One account's stake behind a validator."""

    who: AccountId
    value: Balance


@struct
class Exposure:
    """The stake behind one validator, frozen when its era began."""

    total: Balance
    own: Balance
    others: Annotated[tuple[Backing, ...], Bounded(DELEGATORS_PER_VALIDATOR_MAX)] = ()
    """Delegators, by ascending account."""
    commission_ppm: U32 = 0
    """What the validator asked of its delegators when the era began."""


def exposure(own: int, others: Sequence[tuple[bytes, int]], commission_ppm: int = 0) -> Exposure:
    """The exposure of a validator with `own` stake and delegations from `others`."""
    backings = tuple(Backing(who, value) for who, value in sorted(others) if value)
    return Exposure(own + sum(backing.value for backing in backings), own, backings, commission_ppm)


def elect(candidates: Sequence[tuple[bytes, int]], seats: int) -> tuple[tuple[bytes, int], ...]:
    """The `seats` candidates with the most stake behind them; equal stakes go by ascending account."""
    by_stake = sorted(candidates, key=lambda candidate: (-candidate[1], candidate[0]))
    return tuple(by_stake[:seats])


def reward_shares(reward: int, validator: bytes, exposed: Exposure) -> tuple[Share, ...]:
    """A validator's reward of one era: its commission first, the rest by stake, dust to the validator."""
    commission = part(reward, exposed.commission_ppm)
    rest = reward - commission
    delegated = []
    if exposed.total:
        delegated = [Share(backing.who, rest * backing.value // exposed.total) for backing in exposed.others]
    own = reward - sum(share.amount for share in delegated)
    return tuple(share for share in (Share(validator, own), *delegated) if share.amount)


def slash_parts(validator: bytes, exposed: Exposure, ppm: int) -> tuple[Backing, ...]:
    """What a slash of `ppm` takes from each account behind the validator, the validator first."""
    everyone = (Backing(validator, exposed.own), *exposed.others)
    return tuple(Backing(backing.who, part(backing.value, ppm)) for backing in everyone)
