"""`LocksApi`: all money of an account that it cannot spend, with its case, its end and the part that can be taken.

Programs put it into words. Invariant: an end is a height or an epoch from the state. An end by an event is described by
reason and part. The part that can be taken never exceeds the amount.
"""

from collections.abc import Iterator
from enum import IntEnum
from itertools import islice
from typing import Annotated

from runtime.encoding.codec import U32, Bounded, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber
from runtime.frame.api import RuntimeApi, query
from runtime.frame.holds import CaseId, Hold, HoldReason
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.staking.holdings import is_kept, kept_until, stake_of, value_now
from runtime.pallets.staking.stakers import STAKE, UNLOCKING_MAX, Unlocking
from runtime.pallets.staking.trust_stake import TrustStake

LOCKS_PER_PAGE = 128


class LockPart(IntEnum):
    """A part of the money held for a reason."""

    WHOLE = 0
    """The whole hold, for every reason but stakes."""
    BOND = 1
    """A validator's own bond."""
    DELEGATION = 2
    LEAVING = 3
    """Stake that is unlocking from a validator."""
    POOLED = 4
    """Delegations of others behind a validator, held by the chain."""


class SlashWait(IntEnum):
    """The reasons why a stake stays longer than its own time."""

    NONE = 0
    UNDECIDED = 1
    """A slash is not yet taken or cancelled."""
    RAISABLE = 2
    """The stake bore a slash that later offences of others can still raise."""


@struct
class Lock:
    """Money of an account that it cannot spend, for one case or one part of it."""

    reason: HoldReason
    part: LockPart
    case: CaseId
    amount: Balance
    at_most: Balance
    """The most that can be taken from it."""
    until_epoch: U32 | None
    """The first epoch in which it can be free, None if unknown."""
    until_block: BlockNumber | None
    """The block that frees it, None if unknown."""
    stays_epochs: U32
    """The epochs for which it stays locked after the event that ends its case."""
    stays_blocks: U32
    """The blocks for which it stays locked after that event."""
    kept_by: SlashWait


Locks = Annotated[tuple[Lock, ...], Bounded(LOCKS_PER_PAGE + UNLOCKING_MAX)]


@struct
class HeldLocks:
    """One page of an account's own holds."""

    locks: Locks
    more_behind: Hold | None
    """The start of the next page, None after the last."""


@struct
class EntrustedLocks:
    """One page of an account's money held by the chain: delegations, and those that are unlocking."""

    locks: Locks
    more_behind: AccountId | None
    """The start of the next page, None after the last."""


class LocksApi(RuntimeApi, version=1):
    """The locked money of an account."""

    @query
    def held(self, account: AccountId, behind: Hold | None) -> HeldLocks:
        """Return an account's own holds, in the order of the storage keys. A bond's unlocking parts are separate."""
        held_cases = self.bound[Balances].held_cases.under(account, behind=behind)
        page_entries = list(islice(held_cases, LOCKS_PER_PAGE))
        found_locks: list[Lock] = []
        for hold, held_grains in page_entries:
            if hold.reason is STAKE:
                found_locks += _own_stake(self.bound[TrustStake], account, hold.case, held_grains)
            else:
                found_locks.append(_whole(self.bound, hold, held_grains))
        # A full page may be the last one. The next page is then empty.
        return HeldLocks(tuple(found_locks), page_entries[-1][0] if len(page_entries) == LOCKS_PER_PAGE else None)

    @query
    def entrusted(self, account: AccountId, behind: AccountId | None) -> EntrustedLocks:
        """Return an account's delegations, in the order of the storage keys. The first page adds unlocking ones."""
        stake_ledger, found_locks = self.bound[TrustStake], list[Lock]()
        for validator, _ in islice(stake_ledger.delegations.under(account, behind=behind), LOCKS_PER_PAGE):
            found_locks.append(
                _behind(stake_ledger, LockPart.DELEGATION, validator, stake_of(stake_ledger, account, validator))
            )
        next_start = found_locks[-1].case if len(found_locks) == LOCKS_PER_PAGE else None
        # On the first page alone, because an account has at most `UNLOCKING_MAX` chunks.
        if behind is None:
            unlocking_chunks = stake_ledger.unlocking[account]
            found_locks += [
                _leaving(stake_ledger, unlocking_chunk)
                for unlocking_chunk in unlocking_chunks
                if unlocking_chunk.validator != account
            ]
        return EntrustedLocks(tuple(found_locks), next_start)


def _whole(bound_pallets: Bound, held_case: Hold, held_grains: int) -> Lock:
    """Return the whole hold for a case. Its pallet determines the end."""
    owning_pallet = next(
        owning_pallet for owning_pallet in bound_pallets.pallets if held_case.reason in owning_pallet.hold_reasons
    )
    hold_end = owning_pallet.hold_end(held_case)
    return Lock(
        reason=held_case.reason,
        part=LockPart.WHOLE,
        case=held_case.case,
        amount=held_grains,
        # A deposit always comes back whole.
        at_most=0 if held_case.reason.is_deposit else held_grains,
        until_epoch=None,
        until_block=hold_end.block,
        stays_epochs=0,
        stays_blocks=hold_end.stays,
        kept_by=SlashWait.NONE,
    )


def _own_stake(stake_ledger: TrustStake, owner_account: bytes, validator: bytes, held_grains: int) -> Iterator[Lock]:
    """Yield an owner's bond and its unlocking parts. For the chain's account, yield a validator's delegations."""
    if validator != owner_account:
        yield _staked(LockPart.POOLED, validator, held_grains)
        return
    if stake_ledger.bonds[owner_account]:
        yield _behind(stake_ledger, LockPart.BOND, owner_account, stake_ledger.bonds[owner_account])
    for unlocking_chunk in stake_ledger.unlocking[owner_account]:
        if unlocking_chunk.validator == owner_account:
            yield _leaving(stake_ledger, unlocking_chunk)


def _behind(stake_ledger: TrustStake, lock_part: LockPart, validator: bytes, staked_grains: int) -> Lock:
    """Return the lock of stake behind a validator, until its owner unlocks it."""
    slash_wait = SlashWait.UNDECIDED if stake_ledger.pending_slash_counts[validator] else SlashWait.NONE
    return _staked(lock_part, validator, staked_grains, stays_epochs=stake_ledger.unbonding_epochs, kept_by=slash_wait)


def _leaving(stake_ledger: TrustStake, unlocking_chunk: Unlocking) -> Lock:
    slash_wait = SlashWait.NONE
    if is_kept(stake_ledger, unlocking_chunk):
        is_frozen = any(stake_ledger.pending_slash_counts[liability.validator] for liability in unlocking_chunk.answers)
        slash_wait = SlashWait.UNDECIDED if is_frozen else SlashWait.RAISABLE
    until_epoch, staked_grains = kept_until(stake_ledger, unlocking_chunk), value_now(stake_ledger, unlocking_chunk)
    return _staked(
        LockPart.LEAVING, unlocking_chunk.validator, staked_grains, until_epoch=until_epoch, kept_by=slash_wait
    )


def _staked(
    lock_part: LockPart,
    validator: bytes,
    staked_grains: int,
    *,
    until_epoch: int | None = None,
    stays_epochs: int = 0,
    kept_by: SlashWait = SlashWait.NONE,
) -> Lock:
    return Lock(STAKE, lock_part, validator, staked_grains, staked_grains, until_epoch, None, stays_epochs, 0, kept_by)
