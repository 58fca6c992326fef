"""`LocksApi`: all money of an account that it cannot spend: for which case, until when, how much of it can be taken.

Programs put it into words. Always: only a height or an epoch that the state has is given as an end; an end that is an
event is told by reason and part; what may be taken is never more than what lies there.
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
    """A part of the money that is held for a reason."""

    WHOLE = 0
    """All of it, of every reason but stakes."""
    BOND = 1
    """A validator's own bond."""
    DELEGATION = 2
    LEAVING = 3
    """Stake on its way out from behind a validator."""
    POOLED = 4
    """Delegations of others behind a validator, kept by the chain."""


class SlashWait(IntEnum):
    """Why a stake stays longer than its own time."""

    NONE = 0
    UNDECIDED = 1
    """A slash waits until it is taken or cancelled."""
    RAISABLE = 2
    """It bore a slash that others who offend can still raise."""


@struct
class Lock:
    """Money of an account that it cannot spend, for one case or one part of it."""

    reason: HoldReason
    part: LockPart
    case: CaseId
    amount: Balance
    at_most: Balance
    """How much of it something could take."""
    until_epoch: U32 | None
    """The first epoch in which it can be free; None where no epoch is known."""
    until_block: BlockNumber | None
    """The block that frees it; None where no height is known."""
    stays_epochs: U32
    """It stays locked for so many epochs after the event that ends its case."""
    stays_blocks: U32
    """The same in blocks."""
    kept_by: SlashWait


Locks = Annotated[tuple[Lock, ...], Bounded(LOCKS_PER_PAGE + UNLOCKING_MAX)]


@struct
class HeldLocks:
    """Some of what an account holds itself."""

    locks: Locks
    more_behind: Hold | None
    """Where the next page begins; None after the last."""


@struct
class EntrustedLocks:
    """Some of what the chain keeps for an account: delegations, and those on their way back."""

    locks: Locks
    more_behind: AccountId | None
    """Where the next page begins; None after the last."""


class LocksApi(RuntimeApi, version=1):
    """What is locked of an account."""

    @query
    def held(self, account: AccountId, behind: Hold | None) -> HeldLocks:
        """What an account holds itself, in the order of the storage keys; a bond and each part that leaves it apart."""
        cases = self.bound[Balances].held_cases.under(account, behind=behind)
        page = list(islice(cases, LOCKS_PER_PAGE))
        found: list[Lock] = []
        for hold, amount in page:
            if hold.reason is STAKE:
                found += _own_stake(self.bound[TrustStake], account, hold.case, amount)
            else:
                found.append(_whole(self.bound, hold, amount))
        return HeldLocks(tuple(found), page[-1][0] if len(page) == LOCKS_PER_PAGE else None)

    @query
    def entrusted(self, account: AccountId, behind: AccountId | None) -> EntrustedLocks:
        """What an account delegated, in the order of the storage keys; on the first page what waits to come back."""
        stake, found = self.bound[TrustStake], list[Lock]()
        for validator, _ in islice(stake.delegations.under(account, behind=behind), LOCKS_PER_PAGE):
            found.append(_behind(stake, LockPart.DELEGATION, validator, stake_of(stake, account, validator)))
        more = found[-1].case if len(found) == LOCKS_PER_PAGE else None
        if behind is None:
            chunks = stake.unlocking[account]
            found += [_leaving(stake, chunk) for chunk in chunks if chunk.validator != account]
        return EntrustedLocks(tuple(found), more)


def _whole(bound: Bound, hold: Hold, amount: int) -> Lock:
    """All that is held for a case; its pallet says when it ends."""
    pallet = next(pallet for pallet in bound.pallets if hold.reason in pallet.hold_reasons)
    end = pallet.hold_end(hold)
    return Lock(
        reason=hold.reason,
        part=LockPart.WHOLE,
        case=hold.case,
        amount=amount,
        at_most=0 if hold.reason.is_deposit else amount,
        until_epoch=None,
        until_block=end.block,
        stays_epochs=0,
        stays_blocks=end.stays,
        kept_by=SlashWait.NONE,
    )


def _own_stake(stake: TrustStake, owner: bytes, validator: bytes, amount: int) -> Iterator[Lock]:
    """A bond of one's own, and what left it and waits; or all delegations behind a validator, where the chain is it."""
    if validator != owner:
        yield _staked(LockPart.POOLED, validator, amount)
        return
    if stake.bonds[owner]:
        yield _behind(stake, LockPart.BOND, owner, stake.bonds[owner])
    for chunk in stake.unlocking[owner]:
        if chunk.validator == owner:
            yield _leaving(stake, chunk)


def _behind(stake: TrustStake, part: LockPart, validator: bytes, amount: int) -> Lock:
    """Stake that stands behind a validator until its owner takes it out."""
    kept_by = SlashWait.UNDECIDED if stake.pending_slash_counts[validator] else SlashWait.NONE
    return _staked(part, validator, amount, stays_epochs=stake.unbonding_epochs, kept_by=kept_by)


def _leaving(stake: TrustStake, chunk: Unlocking) -> Lock:
    kept_by = SlashWait.NONE
    if is_kept(stake, chunk):
        is_frozen = any(stake.pending_slash_counts[answer.validator] for answer in chunk.answers)
        kept_by = SlashWait.UNDECIDED if is_frozen else SlashWait.RAISABLE
    until, amount = kept_until(stake, chunk), value_now(stake, chunk)
    return _staked(LockPart.LEAVING, chunk.validator, amount, until_epoch=until, kept_by=kept_by)


def _staked(
    part: LockPart,
    validator: bytes,
    amount: int,
    *,
    until_epoch: int | None = None,
    stays_epochs: int = 0,
    kept_by: SlashWait = SlashWait.NONE,
) -> Lock:
    return Lock(STAKE, part, validator, amount, amount, until_epoch, None, stays_epochs, 0, kept_by)
