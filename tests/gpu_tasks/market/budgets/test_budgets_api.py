"""Queries about budgets: one by its id, those of an owner, and pages of those that name a key."""

from typing import Any

from budget_chain import APP, MONEY, OWNER, SESSION_RECORD, BudgetChain, budget_chain, caps
from gpu_tasks.market.budgets import budgets_api
from gpu_tasks.market.budgets.budgets import Budgets
from gpu_tasks.market.budgets.budgets_api import BudgetsApi, DelegateStatus
from gpu_tasks.market.budgets.records import DAY_BLOCKS
from runtime.frame.api import Apis
from runtime.frame.runtime import Bound
from runtime.pallets.system import System
from session_chain import DEPOSIT
from simulation.chains.market_chain import Keys, signed


def asked(chain: BudgetChain, method: str, *arguments: Any) -> Any:
    apis = Apis(chain.runtime, (BudgetsApi,))
    return getattr(BudgetsApi(apis, chain.state, b"b" * 32, lambda *_: True), method)(*arguments)


def test_a_budget_is_shown_with_its_money_and_delegates() -> None:
    chain = budget_chain()
    budget_id = chain.granted()
    chain.spend_open(budget_id)
    status = asked(chain, "budget", budget_id)
    assert (status.id, status.owner, status.account) == (budget_id, OWNER.stash, chain.budget(budget_id).account)
    held = DEPOSIT + SESSION_RECORD
    assert (status.free, status.held) == (MONEY - held, held)
    assert status.delegates == (DelegateStatus(APP, caps(), DEPOSIT, DEPOSIT),)
    assert asked(chain, "budget", bytes(32)) is None


def test_a_day_that_is_over_counts_no_more() -> None:
    chain = budget_chain()
    budget_id = chain.granted()
    chain.spend_open(budget_id)

    def a_day_later(bound: Bound) -> None:
        bound[System].number.set(DAY_BLOCKS)

    chain.block(a_day_later)
    (delegate,) = asked(chain, "budget", budget_id).delegates
    assert (delegate.spent_total, delegate.spent_today) == (DEPOSIT, 0)


def test_budgets_of_an_owner_are_shown_at_once_and_those_of_a_key_in_pages(monkeypatch: Any) -> None:
    monkeypatch.setattr(budgets_api, "BUDGETS_SHOWN_MAX", 2)
    chain = budget_chain()
    created = {chain.granted(0) for _ in range(3)}
    other = chain.create(0, Keys("alice").stash)
    chain.block(signed(Keys("alice").stash, Budgets.grant(budget=other, delegate=APP, caps=caps())))
    assert {each.id for each in asked(chain, "budgets_of_owner", OWNER.stash)} < created
    shown: list[bytes] = []
    while page := asked(chain, "budgets_of_key", APP, shown[-1] if shown else None):
        assert len(page) <= 2
        shown += [status.id for status in page]
    assert len(shown) == 4
    assert set(shown) == created | {other}
    assert asked(chain, "budgets_of_key", OWNER.stash, None) == ()
