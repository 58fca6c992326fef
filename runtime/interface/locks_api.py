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
        cases = self.bound[Balances].held_cases.under(account, behind=behind)
        page = list(islice(cases, LOCKS_PER_PAGE))
        locks: list[Lock] = []
        for hold, held_grains in page:
            if hold.reason is STAKE:
                locks += _own_stake(self.bound[TrustStake], account, hold.case, held_grains)
            else:
                locks.append(_whole(self.bound, hold, held_grains))
        # A full page may be the last one. The next page is then empty.
        return HeldLocks(tuple(locks), page[-1][0] if len(page) == LOCKS_PER_PAGE else None)

    @query
    def entrusted(self, account: AccountId, behind: AccountId | None) -> EntrustedLocks:
        """Return an account's delegations, in the order of the storage keys. The first page adds unlocking ones."""
        stake, locks = self.bound[TrustStake], list[Lock]()
        for validator, _ in islice(stake.delegations.under(account, behind=behind), LOCKS_PER_PAGE):
            locks.append(_behind(stake, LockPart.DELEGATION, validator, stake_of(stake, account, validator)))
        next_start = locks[-1].case if len(locks) == LOCKS_PER_PAGE else None
        # On the first page alone, because an account has at most `UNLOCKING_MAX` chunks.
        if behind is None:
            chunks = stake.unlocking[account]
            locks += [_leaving(stake, chunk) for chunk in chunks if chunk.validator != account]
        return EntrustedLocks(tuple(locks), next_start)


def _whole(bound: Bound, hold: Hold, held_grains: int) -> Lock:
    """Return the whole hold for a case. Its pallet determines the end."""
    owner = next(owner for owner in bound.pallets if hold.reason in owner.hold_reasons)
    end = owner.hold_end(hold)
    return Lock(
        reason=hold.reason,
        part=LockPart.WHOLE,
        case=hold.case,
        amount=held_grains,
        # A deposit always comes back whole.
        at_most=0 if hold.reason.is_deposit else held_grains,
        until_epoch=None,
        until_block=end.block,
        stays_epochs=0,
        stays_blocks=end.stays,
        kept_by=SlashWait.NONE,
    )


def _own_stake(stake: TrustStake, account: bytes, validator: bytes, held_grains: int) -> Iterator[Lock]:
    """Yield an owner's bond and its unlocking parts. For the chain's account, yield a validator's delegations."""
    if validator != account:
        yield _staked(LockPart.POOLED, validator, held_grains)
        return
    if stake.bonds[account]:
        yield _behind(stake, LockPart.BOND, account, stake.bonds[account])
    for chunk in stake.unlocking[account]:
        if chunk.validator == account:
            yield _leaving(stake, chunk)


def _behind(stake: TrustStake, part: LockPart, validator: bytes, staked_grains: int) -> Lock:
    """Return the lock of stake behind a validator, until its owner unlocks it."""
    slash_wait = SlashWait.UNDECIDED if stake.pending_slash_counts[validator] else SlashWait.NONE
    return _staked(part, validator, staked_grains, stays_epochs=stake.unbonding_epochs, kept_by=slash_wait)


def _leaving(stake: TrustStake, chunk: Unlocking) -> Lock:
    slash_wait = SlashWait.NONE
    if is_kept(stake, chunk):
        is_frozen = any(stake.pending_slash_counts[liability.validator] for liability in chunk.answers)
        slash_wait = SlashWait.UNDECIDED if is_frozen else SlashWait.RAISABLE
    until_epoch, staked_grains = kept_until(stake, chunk), value_now(stake, chunk)
    return _staked(LockPart.LEAVING, chunk.validator, staked_grains, until_epoch=until_epoch, kept_by=slash_wait)


def _staked(
    part: LockPart,
    validator: bytes,
    staked_grains: int,
    *,
    until_epoch: int | None = None,
    stays_epochs: int = 0,
    kept_by: SlashWait = SlashWait.NONE,
) -> Lock:
    return Lock(STAKE, part, validator, staked_grains, staked_grains, until_epoch, None, stays_epochs, 0, kept_by)
