"""Slashes between their proof and their taking: held for an era, in which nothing leaves the offender.

Always: slashes are taken in the order in which they were proven, one in a block; `frozen[v]` is how many of a validator
wait. What is cancelled was never taken, so nothing has to be given back.
"""

from dataclasses import replace

from runtime.pallets.pots import STAKES
from runtime.pallets.staking.share_pool import strike
from runtime.pallets.staking.slash_factors import SlashStep, lost, remembered
from runtime.pallets.staking.slashing import part
from runtime.pallets.staking.stake_ledger import StakeLedger
from runtime.pallets.staking.stakers import HeldSlash
from runtime.pallets.staking.staking_events import SlashCancelled, SlashHeld, SlashTaken


def hold_back(stake: StakeLedger, offender: bytes, era: int, step: SlashStep, reporter: bytes | None) -> int:
    """Hold a slash until the next era; what it would take of the bond and the pool now."""
    number, take_era = stake.next_slash_number.get(), stake.current_era.get() + 1
    stake.unapplied_slashes[offender, number] = HeldSlash(era, step, reporter, take_era)
    stake.slash_queue[number] = offender
    stake.next_slash_number.set(number + 1)
    stake.pending_slash_counts[offender] += 1
    stake.emit(SlashHeld(number, offender, era, step, take_era))
    return lost(stake.bonds[offender], step) + lost(stake.pools[offender].stake.value, step)


def take_due(stake: StakeLedger) -> bool:
    """Take the first slash that waits, if its era has come; whether there was one, or the place of one."""
    number = stake.first_slash_number.get()
    offender = stake.slash_queue[number]
    if offender is None:
        return False
    held = stake.unapplied_slashes[offender, number]
    if held is not None and held.take_era > stake.current_era.get():
        return False
    stake.first_slash_number.set(number + 1)
    del stake.slash_queue[number]
    if held is not None:  # else it was cancelled
        _end(stake, offender, number)
        stake.emit(SlashTaken(number, offender, _take(stake, offender, held)))
    return True


def cancel(stake: StakeLedger, offender: bytes) -> int:
    """Forget every slash of a validator that waits; how many there were."""
    numbers = [number for number, _ in stake.unapplied_slashes.under(offender)]
    for number in numbers:
        _end(stake, offender, number)
        stake.emit(SlashCancelled(number, offender))
    return len(numbers)


def _end(stake: StakeLedger, offender: bytes, number: int) -> None:
    del stake.unapplied_slashes[offender, number]
    waiting = stake.pending_slash_counts[offender] - 1
    if waiting:
        stake.pending_slash_counts[offender] = waiting
    else:
        del stake.pending_slash_counts[offender]


def _take(stake: StakeLedger, offender: bytes, held: HeldSlash) -> int:
    """Strike the bond and the pool; what left them finds the factor when it is touched. The grains taken."""
    pool = stake.pools[offender]
    own, struck = lost(stake.bonds[offender], held.step), strike(pool.stake, held.step)
    stake.set_bond(offender, stake.bonds[offender] - own)
    if struck.amount:
        stake.pools[offender] = replace(pool, stake=struck.pool)
    answering = stake.answering_era(offender, held.era)
    stake.slash_factors[offender] = remembered(stake.slash_factors[offender], answering, held.step)
    stake.pay_slash(offender, offender, offender, own, held.reporter)
    # A reporter has half of what the offender itself loses at most: else who has much of others behind it would report
    # itself, and offend for nothing.
    reward_max = max(0, own // 2 - part(own, stake.slash_reporter))
    stake.pay_slash(STAKES, offender, STAKES, struck.amount, held.reporter, reward_max)
    stake.check_covered(offender, offender)
    stake.check_covered(STAKES, offender)
    return own + struck.amount
