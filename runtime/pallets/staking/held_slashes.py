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


def hold_back(
    stake_ledger: StakeLedger, offender: bytes, era_number: int, slash_step: SlashStep, reporter: bytes | None
) -> int:
    """Hold a slash until the next era. Return its current size: the loss of the bond and the pool."""
    # Held for an era, in which Root may cancel it: nothing then has to be given back (ADR 22).
    slash_number, take_era = stake_ledger.next_slash_number.get(), stake_ledger.current_era.get() + 1
    stake_ledger.unapplied_slashes[offender, slash_number] = HeldSlash(era_number, slash_step, reporter, take_era)
    stake_ledger.slash_queue[slash_number] = offender
    stake_ledger.next_slash_number.set(slash_number + 1)
    stake_ledger.pending_slash_counts[offender] += 1
    stake_ledger.emit(SlashHeld(slash_number, offender, era_number, slash_step, take_era))
    return lost(stake_ledger.bonds[offender], slash_step) + lost(stake_ledger.pools[offender].stake.value, slash_step)


def take_due(stake_ledger: StakeLedger) -> bool:
    """Take the first unapplied slash if its era has come. Return True if the queue advanced."""
    slash_number = stake_ledger.first_slash_number.get()
    offender = stake_ledger.slash_queue[slash_number]
    if offender is None:
        return False
    held_slash = stake_ledger.unapplied_slashes[offender, slash_number]
    if held_slash is not None and held_slash.take_era > stake_ledger.current_era.get():
        return False
    stake_ledger.first_slash_number.set(slash_number + 1)
    del stake_ledger.slash_queue[slash_number]
    if held_slash is not None:  # None: it was cancelled
        _end(stake_ledger, offender, slash_number)
        stake_ledger.emit(SlashTaken(slash_number, offender, _take(stake_ledger, offender, held_slash)))
    return True


def cancel(stake_ledger: StakeLedger, offender: bytes) -> int:
    """Cancel every unapplied slash of a validator. Return their number."""
    slash_numbers = [slash_number for slash_number, _ in stake_ledger.unapplied_slashes.under(offender)]
    for slash_number in slash_numbers:
        _end(stake_ledger, offender, slash_number)
        stake_ledger.emit(SlashCancelled(slash_number, offender))
    return len(slash_numbers)


def _end(stake_ledger: StakeLedger, offender: bytes, slash_number: int) -> None:
    del stake_ledger.unapplied_slashes[offender, slash_number]
    pending_count = stake_ledger.pending_slash_counts[offender] - 1
    if pending_count:
        stake_ledger.pending_slash_counts[offender] = pending_count
    else:
        del stake_ledger.pending_slash_counts[offender]


def _take(stake_ledger: StakeLedger, offender: bytes, held_slash: HeldSlash) -> int:
    """Slash the bond and the pool. Stake that left finds the factor when it is touched. Return the grains taken."""
    delegated_pool = stake_ledger.pools[offender]
    own_grains, struck_pool = (
        lost(stake_ledger.bonds[offender], held_slash.step),
        strike(delegated_pool.stake, held_slash.step),
    )
    stake_ledger.set_bond(offender, stake_ledger.bonds[offender] - own_grains)
    if struck_pool.amount:
        stake_ledger.pools[offender] = replace(delegated_pool, stake=struck_pool.pool)
    answering = stake_ledger.answering_era(offender, held_slash.era)
    stake_ledger.slash_factors[offender] = remembered(stake_ledger.slash_factors[offender], answering, held_slash.step)
    stake_ledger.pay_slash(offender, offender, offender, own_grains, held_slash.reporter)
    # The reward is at most half of the offender's own loss: otherwise a validator with much delegated stake would
    # report itself, and offend without a loss.
    reward_max = max(0, own_grains // 2 - part(own_grains, stake_ledger.slash_reporter))
    stake_ledger.pay_slash(STAKES, offender, STAKES, struck_pool.amount, held_slash.reporter, reward_max)
    stake_ledger.check_covered(offender, offender)
    stake_ledger.check_covered(STAKES, offender)
    return own_grains + struck_pool.amount
