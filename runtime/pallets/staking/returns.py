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


def emitted_at_least(reserve_grains: int, divisor: int, era_count: int) -> int:
    """Return the emission of this many eras from a reserve without inflow, rounded down."""
    remaining_part, era_factor, remaining_eras = SCALE, _up(SCALE * (divisor - 1), divisor), era_count
    while remaining_eras:
        if remaining_eras & 1:
            remaining_part = _up(remaining_part * era_factor, SCALE)
        era_factor, remaining_eras = _up(era_factor * era_factor, SCALE), remaining_eras >> 1
    # Only whole grains are emitted, so the last of a reserve, less than the divisor, never leaves it.
    return max(0, reserve_grains * (SCALE - remaining_part) // SCALE - divisor)


def expected_returns(stake: StakeLedger, reserve_grains: int, era_count: int) -> tuple[ExpectedReturn, ...]:
    """Return the expected return of each elected validator, by ascending stash, from this era on. () in the first era.

    Each keeps its current stake and makes the same share of all blocks as in the last era: a validator without blocks
    gets nothing.
    """
    last_era = stake.current_era.get() - 1
    if last_era < 0:
        return ()
    points_by_stash = {entry.stash: entry.points for entry in stake.eras_reward_points[last_era]}
    emitted_grains = emitted_at_least(reserve_grains, stake.emission_divisor, era_count)
    for_validators = part(emitted_grains, stake.emission_validators)
    total_points = sum(points_by_stash.values())
    expected = []
    for stash, exposure in sorted(stake.eras_exposure.under(last_era + 1), key=lambda entry: entry[0]):
        if exposure is None:
            continue
        commission_change = stake.commission_changes[stash]
        # The higher one, because the announced one may apply within these eras.
        commission_ppm = max(exposure.commission_ppm, commission_change.commission_ppm if commission_change else 0)
        reward_grains = for_validators * points_by_stash.get(stash, 0) // total_points if total_points else 0
        paid_grains = reward_grains * (PPM - commission_ppm) // PPM - LOST_AN_ERA * era_count
        expected.append(ExpectedReturn(stash, exposure.total, max(0, paid_grains)))
    return tuple(expected)


def _up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
