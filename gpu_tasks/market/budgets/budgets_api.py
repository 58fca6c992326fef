"""`BudgetsApi`: queries of owners and delegates about budgets."""

from collections.abc import Iterable
from itertools import islice
from typing import Annotated

from gpu_tasks.market.budgets.budgets import Budgets
from gpu_tasks.market.budgets.records import BUDGETS_PER_OWNER_MAX, DELEGATES_MAX, Caps, spent_today
from runtime.encoding.codec import Bounded, struct
from runtime.encoding.types import AccountId, Balance, Hash
from runtime.frame.api import RuntimeApi, query

BUDGETS_SHOWN_MAX = BUDGETS_PER_OWNER_MAX
"""The most budgets in one answer. The next answer begins after the last of them."""


@struct
class DelegateStatus:
    """A delegate with its caps and its spent amounts, in grains."""

    key: AccountId
    caps: Caps
    spent_total: Balance
    spent_today: Balance


@struct
class BudgetStatus:
    """A budget with its money, in grains."""

    id: Hash
    owner: AccountId
    account: AccountId
    free: Balance
    held: Balance
    """The money that units and sessions hold, with the deposits for their records."""
    delegates: Annotated[tuple[DelegateStatus, ...], Bounded(DELEGATES_MAX)]


BudgetStatuses = Annotated[tuple[BudgetStatus, ...], Bounded(BUDGETS_SHOWN_MAX)]


class BudgetsApi(RuntimeApi, version=1):
    """Budgets, their money and their delegates."""

    @query
    def budget(self, budget_id: Hash) -> BudgetStatus | None:
        """Return a budget until it is closed, or None."""
        return next(iter(self._shown((budget_id,))), None)

    @query
    def budgets_of_owner(self, owner: AccountId) -> BudgetStatuses:
        """Return all budgets of an owner. Their order has no meaning."""
        return self._shown(budget_id for budget_id, _ in self.bound[Budgets].owner_budgets.under(owner))

    @query
    def budgets_of_key(self, key: AccountId, after: Hash | None) -> BudgetStatuses:
        """Return the first 16 budgets that name a key as delegate, or those after `after`, in the same order."""
        return self._shown(budget_id for budget_id, _ in self.bound[Budgets].key_budgets.under(key, behind=after))

    def _shown(self, budget_ids: Iterable[bytes]) -> tuple[BudgetStatus, ...]:
        room = self.bound[Budgets]
        height = room.system.number.get()
        shown = []
        for budget_id in islice(budget_ids, BUDGETS_SHOWN_MAX):
            budget = room.budgets[budget_id]
            if budget is None:
                continue
            delegates = tuple(
                DelegateStatus(key, record.caps, record.spent, spent_today(record, height))
                for key, record in room.delegates.under(budget_id)
                if record is not None
            )
            data = room.system.account[budget.account].data
            shown.append(BudgetStatus(budget_id, budget.owner, budget.account, data.free, data.reserved, delegates))
        return tuple(shown)
