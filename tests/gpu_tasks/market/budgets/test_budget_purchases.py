"""Purchases of delegates: their amounts, their caps in order, their fees, and the calls that are refused."""

from typing import Any

import pytest

from budget_chain import (
    APP,
    MONEY,
    OWNER,
    SESSION_RECORD,
    UNIT_RECORD,
    BudgetChain,
    budget_chain,
    caps,
    post,
    spend,
)
from gpu_tasks.market.budgets import events as ev
from gpu_tasks.market.budgets.budgets import SPEND_WEIGHT, Budgets
from gpu_tasks.market.budgets.records import DAY_BLOCKS, SERVICES_MAX
from gpu_tasks.market.inference.events import UnknownService, UnsoundTerms
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions.sessions import Sessions
from runtime.encoding.types import Signed
from runtime.frame.errors import FundsUnavailable
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.sudo import Sudo
from runtime.pallets.system import System
from runtime.pallets.utility import Utility
from session_chain import DEPOSIT, opening
from simulation.chains.market_chain import CUSTOMER, OGPU, refused, signed, terms

SESSION = opening(signer=APP)


@pytest.fixture
def chain() -> BudgetChain:
    return budget_chain()


def test_a_session_costs_its_deposit(chain: BudgetChain) -> None:
    budget_id = chain.granted()
    session_id = chain.spend_open(budget_id)
    account = chain.budget(budget_id).account
    session = chain.session(session_id)
    assert (session.customer, session.signer) == (account, APP)
    assert chain.money(budget_id) == MONEY - DEPOSIT - SESSION_RECORD
    delegate = chain.delegate(budget_id)
    assert (delegate.spent, delegate.spent_in_day) == (DEPOSIT, DEPOSIT)
    assert chain.happened(ev.BudgetSpent) == [ev.BudgetSpent(budget_id, APP, DEPOSIT)]


def test_units_cost_escrow_bond_and_prepaid_calls(chain: BudgetChain) -> None:
    """A customer pays the same without a budget."""
    budget_id = chain.granted()
    units = (terms(OGPU // 2), terms(OGPU))
    before = chain.free(CUSTOMER.stash)
    chain.post(*units)
    cost = before - chain.free(CUSTOMER.stash) - 2 * UNIT_RECORD
    chain.spend_post(budget_id, *units)
    assert chain.delegate(budget_id).spent == cost > 3 * OGPU // 2
    assert chain.money(budget_id) == MONEY - cost - 2 * UNIT_RECORD
    assert chain.unit(chain.spend_post(budget_id, terms(OGPU))[0]).customer == chain.budget(budget_id).account


def test_a_refund_returns_to_the_budget_and_not_to_the_caps() -> None:
    chain = budget_chain(places=0)
    budget_id = chain.granted(total=DEPOSIT)
    session_id = chain.spend_open(budget_id)
    chain.blocks(3)
    assert chain.is_over(session_id), "no device had a place"
    assert chain.money(budget_id) == MONEY
    assert chain.delegate(budget_id).spent == DEPOSIT
    chain.block(refused(APP, spend(budget_id, opening(signer=APP, deposit=OGPU)), ev.OverTotalCap))


# ----------------------------------------------------------------------------------------------------------------- caps


@pytest.mark.parametrize("limit", ["unit", "day", "total"])
@pytest.mark.parametrize("excess", [0, 1])
def test_a_cap_permits_exactly_its_amount(chain: BudgetChain, limit: str, excess: int) -> None:
    budget_id = chain.granted(**{limit: DEPOSIT - excess})
    call, errors = spend(budget_id, SESSION), {"unit": ev.OverUnitCap, "day": ev.OverDayCap, "total": ev.OverTotalCap}
    chain.block(refused(APP, call, errors[limit]) if excess else signed(APP, call))
    assert chain.delegate(budget_id).spent == (0 if excess else DEPOSIT)
    assert chain.room.session_count.get() == (0 if excess else 1)
    assert chain.money(budget_id) == MONEY - (0 if excess else DEPOSIT + SESSION_RECORD)


@pytest.mark.parametrize("limit", ["day", "total"])
def test_caps_cover_the_sum_of_purchases(chain: BudgetChain, limit: str) -> None:
    budget_id = chain.granted(**{limit: 2 * DEPOSIT})
    call = spend(budget_id, SESSION)
    error = ev.OverDayCap if limit == "day" else ev.OverTotalCap
    chain.block(signed(APP, call), signed(APP, call), refused(APP, call, error))
    assert chain.delegate(budget_id).spent == 2 * DEPOSIT


def test_the_dearest_unit_of_a_post_counts(chain: BudgetChain) -> None:
    budget_id = chain.granted(unit=OGPU - 1)
    chain.block(
        refused(APP, spend(budget_id, post(terms(OGPU // 2), terms(OGPU))), ev.OverUnitCap),
        signed(APP, spend(budget_id, post(terms(OGPU // 2), terms(OGPU // 2)))),
    )


def test_a_day_begins_at_a_multiple_of_its_blocks(chain: BudgetChain) -> None:
    budget_id = chain.granted(day=DEPOSIT)
    call = spend(budget_id, SESSION)
    chain.block(signed(APP, call))

    def at(height: int, error: Any = None) -> Any:
        def step(bound: Bound) -> None:
            with bound.overlay.transaction():
                bound[System].number.set(height)
                (signed(APP, call) if error is None else refused(APP, call, error))(bound)
                raise StopIteration

        def undone(bound: Bound) -> None:
            with pytest.raises(StopIteration):
                step(bound)

        return undone

    chain.block(
        at(DAY_BLOCKS - 1, ev.OverDayCap),
        at(DAY_BLOCKS),
        at(3 * DAY_BLOCKS - 1),
        at(3 * DAY_BLOCKS, ev.DelegateExpired),
    )


@pytest.mark.parametrize("services", [(1,), tuple(range(1, 1 + SERVICES_MAX))])
def test_a_delegate_buys_from_its_services_alone(chain: BudgetChain, services: tuple[int, ...]) -> None:
    budget_id = chain.granted(services=services)
    chain.block(
        refused(APP, spend(budget_id, SESSION), ev.ServiceNotAllowed),
        refused(APP, spend(budget_id, post(terms())), ev.ServiceNotAllowed),
        refused(APP, spend(budget_id, post(terms(), service=1)), UnknownService),
        signed(OWNER.stash, Budgets.grant(budget=budget_id, delegate=APP, caps=caps(services=(7, 0)))),
        signed(APP, spend(budget_id, SESSION)),
    )


def test_more_services_than_the_limit_do_not_encode(chain: BudgetChain) -> None:
    call = Budgets.grant(budget=bytes(32), delegate=APP, caps=caps(services=tuple(range(SERVICES_MAX + 1))))
    with pytest.raises(ValueError, match="16"):
        chain.runtime.call_codec.encode(call)


def test_the_first_of_several_errors_is_told(chain: BudgetChain) -> None:
    """The order is delegate, expiry, call, service, cap of one, the call itself, cap of a day, cap in all."""
    nothing = {"unit": 0, "day": 0, "total": 0, "services": (9,), "expires_at": 0}
    budget_id = chain.granted(**nothing)
    transfer = spend(budget_id, Balances.transfer_allow_death(dest=APP, value=1))
    steps: list[tuple[dict[str, Any], Any, Any]] = [
        ({}, transfer, ev.DelegateExpired),
        ({"expires_at": DAY_BLOCKS}, transfer, ev.NotAllowed),
        ({}, spend(budget_id, SESSION), ev.ServiceNotAllowed),
        ({"services": ()}, spend(budget_id, SESSION), ev.OverUnitCap),
        ({"unit": MONEY}, spend(budget_id, opening(signer=APP, deposit=MONEY)), FundsUnavailable),
        ({}, spend(budget_id, SESSION), ev.OverDayCap),
        ({"day": MONEY}, spend(budget_id, SESSION), ev.OverTotalCap),
    ]
    chain.block(refused(OWNER.stash, transfer, ev.UnknownDelegate))
    for changed, call, error in steps:
        nothing |= changed
        granted = Budgets.grant(budget=budget_id, delegate=APP, caps=caps(**nothing))
        chain.block(signed(OWNER.stash, granted), refused(APP, call, error))


# ---------------------------------------------------------------------------------------------------- calls and weights


FORBIDDEN: dict[str, Any] = {
    "a transfer": Balances.transfer_allow_death(dest=APP, value=1),
    "all money": Balances.transfer_all(dest=APP, keep_alive=False),
    "a burn": Balances.burn(value=1, keep_alive=False),
    "a batch": Utility.batch(calls=(post(terms()),)),
    "a batch of all": Utility.batch_all(calls=(post(terms()),)),
    "a forced batch": Utility.force_batch(calls=(post(terms()),)),
    "a spend inside": spend(bytes(32), post(terms())),
    "a budget": Budgets.create(deposit=1),
    "a cancellation": InferenceMarket.cancel(unit=bytes(32)),
    "a service": InferenceMarket.close_service(service=0),
    "a close": Sessions.close(session=bytes(32)),
    "a hand-over": Sessions.hand_over(session=bytes(32)),
    "a remark": System.remark(remark=b""),
    "the owner as signer": opening(signer=OWNER.stash),
    "root": Sudo.sudo(call=post(terms())),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_any_other_call_is_refused(chain: BudgetChain, name: str) -> None:
    budget_id = chain.granted()
    chain.block(refused(APP, spend(budget_id, FORBIDDEN[name]), ev.NotAllowed))
    assert chain.money(budget_id) == MONEY


def test_a_failing_call_keeps_its_error_and_changes_nothing(chain: BudgetChain) -> None:
    budget_id = chain.granted()
    before = chain.delegate(budget_id)
    chain.block(refused(APP, spend(budget_id, InferenceMarket.post(service=0, units=())), UnsoundTerms))
    chain.block(signed(OWNER.stash, Budgets.withdraw(budget=budget_id, amount=MONEY)))
    chain.block(refused(APP, spend(budget_id, SESSION), FundsUnavailable))
    assert chain.delegate(budget_id) == before


def test_a_spend_weighs_its_own_row_and_the_call_inside(chain: BudgetChain) -> None:
    """The fee of a post comes back as without a budget; an opening weighs all that it declares."""
    budget_id = chain.granted()
    found: list[Any] = []

    def step(bound: Bound) -> None:
        inner = post(terms())
        for origin, call in ((CUSTOMER.stash, inner), (APP, spend(budget_id, inner)), (APP, spend(budget_id, SESSION))):
            with bound.overlay.transaction():
                found.append(bound.dispatch(call, Signed(origin)))

    chain.block(step)
    alone, posted, opened = found
    assert alone.actual_weight.ref_time < post(terms()).weight.ref_time
    assert posted.actual_weight == SPEND_WEIGHT + alone.actual_weight
    assert opened.actual_weight == SPEND_WEIGHT + SESSION.weight == spend(budget_id, SESSION).weight
    assert all(each.pays_fee for each in found)
