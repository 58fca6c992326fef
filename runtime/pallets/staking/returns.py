"""What stake behind a validator would earn in eras to come, if they were like the last one.

Always: an answer is never above what the rule pays if nothing changes. So nothing flows back into the reserve here,
rounding goes against the staker, and of a commission and the one that is announced the higher counts.
"""

from runtime.encoding.codec import struct
from runtime.encoding.types import AccountId, Balance
from runtime.pallets.staking.slashing import PPM, part
from runtime.pallets.staking.stake_ledger import StakeLedger

SCALE = 10**18
"""Of what is left of a reserve; a power of 2^32 multiplies 64 times at most, each rounded up."""
LOST_AN_ERA = 4
"""Grains that an era's divisions may leave out: of the emission, its part, a validator's of that, the commission."""


@struct
class ExpectedReturn:
    """What all stake behind a validator would be paid, its commission taken off."""

    stash: AccountId
    stake: Balance
    """What stood behind it when the era began."""
    paid: Balance


def emitted_at_least(reserve: int, divisor: int, eras: int) -> int:
    """What so many eras emit of a reserve into which nothing flows back, rounded down."""
    left, factor, rest = SCALE, _up(SCALE * (divisor - 1), divisor), eras
    while rest:
        if rest & 1:
            left = _up(left * factor, SCALE)
        factor, rest = _up(factor * factor, SCALE), rest >> 1
    # Whole grains are emitted: the last of a reserve, less than the divisor, never.
    return max(0, reserve * (SCALE - left) // SCALE - divisor)


def expected_returns(stake: StakeLedger, reserve: int, eras: int) -> tuple[ExpectedReturn, ...]:
    """Of everybody elected now, by ascending stash, for eras that begin with this one; none in the first era.

    Each makes the part of all blocks that it made in the last era, with the stake that it has now: nothing for who
    made none.
    """
    last = stake.current_era.get() - 1
    if last < 0:
        return ()
    points = {entry.stash: entry.points for entry in stake.eras_reward_points[last]}
    emitted = emitted_at_least(reserve, stake.emission_divisor, eras)
    for_validators = part(emitted, stake.emission_validators)
    total = sum(points.values())
    found = []
    for stash, exposed in sorted(stake.eras_exposure.under(last + 1), key=lambda entry: entry[0]):
        if exposed is None:
            continue
        change = stake.commission_changes[stash]
        commission = max(exposed.commission_ppm, change.commission_ppm if change else 0)
        reward = for_validators * points.get(stash, 0) // total if total else 0
        paid = reward * (PPM - commission) // PPM - LOST_AN_ERA * eras
        found.append(ExpectedReturn(stash, exposed.total, max(0, paid)))
    return tuple(found)


def _up(amount: int, divisor: int) -> int:
    return -(-amount // divisor)
