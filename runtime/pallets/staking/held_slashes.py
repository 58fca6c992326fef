"""Unapplied slashes: held for an era between proof and taking. Meanwhile no stake leaves the offender.

Invariant: slashes are taken in the order of their proof, one in a block. `pending_slash_counts[v]` is the number of a
validator's unapplied slashes. A cancelled slash was never taken, so nothing needs to be returned.
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
    """Hold a slash until the next era. Return its current size: the loss of the bond and the pool."""
    # Held for an era, in which Root may cancel it: nothing then has to be given back (ADR 22).
    number, take_era = stake.next_slash_number.get(), stake.current_era.get() + 1
    stake.unapplied_slashes[offender, number] = HeldSlash(era, step, reporter, take_era)
    stake.slash_queue[number] = offender
    stake.next_slash_number.set(number + 1)
    stake.pending_slash_counts[offender] += 1
    stake.emit(SlashHeld(number, offender, era, step, take_era))
    return lost(stake.bonds[offender], step) + lost(stake.pools[offender].stake.value, step)


def take_due(stake: StakeLedger) -> bool:
    """Take the first unapplied slash if its era has come. Return True if the queue advanced."""
    number = stake.first_slash_number.get()
    offender = stake.slash_queue[number]
    if offender is None:
        return False
    slash = stake.unapplied_slashes[offender, number]
    if slash is not None and slash.take_era > stake.current_era.get():
        return False
    stake.first_slash_number.set(number + 1)
    del stake.slash_queue[number]
    if slash is not None:  # None: it was cancelled
        _end(stake, offender, number)
        stake.emit(SlashTaken(number, offender, _take(stake, offender, slash)))
    return True


def cancel(stake: StakeLedger, offender: bytes) -> int:
    """Cancel every unapplied slash of a validator. Return their number."""
    numbers = [number for number, _ in stake.unapplied_slashes.under(offender)]
    for number in numbers:
        _end(stake, offender, number)
        stake.emit(SlashCancelled(number, offender))
    return len(numbers)


def _end(stake: StakeLedger, offender: bytes, number: int) -> None:
    del stake.unapplied_slashes[offender, number]
    pending_count = stake.pending_slash_counts[offender] - 1
    if pending_count:
        stake.pending_slash_counts[offender] = pending_count
    else:
        del stake.pending_slash_counts[offender]


def _take(stake: StakeLedger, offender: bytes, slash: HeldSlash) -> int:
    """Slash the bond and the pool. Stake that left finds the factor when it is touched. Return the grains taken."""
    delegated_pool = stake.pools[offender]
    own_grains, struck_pool = (
        lost(stake.bonds[offender], slash.step),
        strike(delegated_pool.stake, slash.step),
    )
    stake.set_bond(offender, stake.bonds[offender] - own_grains)
    if struck_pool.amount:
        stake.pools[offender] = replace(delegated_pool, stake=struck_pool.pool)
    answering = stake.answering_era(offender, slash.era)
    stake.slash_factors[offender] = remembered(stake.slash_factors[offender], answering, slash.step)
    stake.pay_slash(offender, offender, offender, own_grains, slash.reporter)
    # The reward is at most half of the offender's own loss: otherwise a validator with much delegated stake would
    # report itself, and offend without a loss.
    reward_max = max(0, own_grains // 2 - part(own_grains, stake.slash_reporter))
    stake.pay_slash(STAKES, offender, STAKES, struck_pool.amount, slash.reporter, reward_max)
    stake.check_covered(offender, offender)
    stake.check_covered(STAKES, offender)
    return own_grains + struck_pool.amount
