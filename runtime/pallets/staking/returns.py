"""The expected return of stake behind a validator, if coming eras were like the last one.

Invariant: an answer never exceeds the actual payment if nothing changes. It therefore ignores money that flows back
into the reserve, rounds against the staker, and uses the higher of the current and the announced commission.
"""

from runtime.encoding.codec import struct
from runtime.encoding.types import AccountId, Balance
from runtime.pallets.staking.slashing import PPM, part
from runtime.pallets.staking.stake_ledger import StakeLedger

SCALE = 10**18
"""The scale of a reserve's remaining part. A power of 2^32 multiplies 64 times at most, each rounded up."""
LOST_AN_ERA = 4
"""The most grains lost by an era's divisions: the emission, its part, a validator's part, the commission."""


@struct
class ExpectedReturn:
    """The payment to all stake behind a validator, less its commission."""

    stash: AccountId
    stake: Balance
    """The stake behind it at the start of the era."""
    paid: Balance


def emitted_at_least(reserve: int, divisor: int, eras: int) -> int:
    """Return the emission of this many eras from a reserve without inflow, rounded down."""
    left, factor, rest = SCALE, _up(SCALE * (divisor - 1), divisor), eras
    while rest:
        if rest & 1:
            left = _up(left * factor, SCALE)
        factor, rest = _up(factor * factor, SCALE), rest >> 1
    # Only whole grains are emitted, so the last of a reserve, less than the divisor, never leaves it.
    return max(0, reserve * (SCALE - left) // SCALE - divisor)


def expected_returns(stake: StakeLedger, reserve: int, eras: int) -> tuple[ExpectedReturn, ...]:
    """Return the expected return of each elected validator, by ascending stash, from this era on. () in the first era.

    Each keeps its current stake and makes the same share of all blocks as in the last era: a validator without blocks
    gets nothing.
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
        # The higher one, because the announced one may apply within these eras.
        commission = max(exposed.commission_ppm, change.commission_ppm if change else 0)
        reward = for_validators * points.get(stash, 0) // total if total else 0
        paid = reward * (PPM - commission) // PPM - LOST_AN_ERA * eras
        found.append(ExpectedReturn(stash, exposed.total, max(0, paid)))
    return tuple(found)


def _up(amount: int, divisor: int) -> int:
    return -(-amount // divisor)
