"""`LocksApi`: all that is locked of an account, for which case, until when, and what could take it."""

from itertools import islice
from typing import Annotated

from gpu_tasks.market.case_locks import MARKET_LOCKS
from runtime.encoding.codec import Bounded, struct
from runtime.encoding.types import AccountId
from runtime.frame.api import RuntimeApi, query
from runtime.frame.holds import Hold
from runtime.interface.locks import HeldMoney, Lock, LockTable
from runtime.interface.stake_locks import STAKE_LOCKS, delegations_of, leaving_delegations
from runtime.pallets.balances import Balances
from runtime.pallets.staking.stakers import UNLOCKING_MAX

LOCKS_PER_PAGE = 128
LOCK_TABLE: LockTable = {**STAKE_LOCKS, **MARKET_LOCKS}
"""Every reason for which this chain holds money."""

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
            found += LOCK_TABLE[hold.reason](self.bound, HeldMoney(account, hold, amount))
        return HeldLocks(tuple(found), page[-1][0] if len(page) == LOCKS_PER_PAGE else None)

    @query
    def entrusted(self, account: AccountId, behind: AccountId | None) -> EntrustedLocks:
        """What an account delegated, in the order of the storage keys; on the first page what waits to come back."""
        found = delegations_of(self.bound, account, behind, LOCKS_PER_PAGE)
        more = found[-1].case if len(found) == LOCKS_PER_PAGE else None
        if behind is None:
            found += leaving_delegations(self.bound, account)
        return EntrustedLocks(tuple(found), more)
