"""A stolen delegate key: everything that a thief tries, and the most that it gets.

The thief also controls the drawn provider, so it signs vouchers for work that nobody did.
"""

from typing import Any

import pytest

from budget_chain import (
    APP,
    MONEY,
    OWNER,
    STRANGER,
    BudgetChain,
    budget_chain,
    caps,
    post,
    spend,
)
from gpu_tasks.market.budgets import events as ev
from gpu_tasks.market.budgets.budgets import Budgets
from gpu_tasks.market.budgets.records import REVOKED_BLOCKS
from gpu_tasks.market.inference.events import NotCustomer
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions.events import NotSessionParty, UnknownSession, VoucherUnfunded
from gpu_tasks.market.sessions.sessions import Sessions
from runtime.encoding.types import Signed
from runtime.frame.errors import DispatchError, FundsUnavailable
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.utility import Utility
from session_chain import DEPOSIT, RATE, SIGNER, claims, opening
from simulation.chains.market_chain import OGPU, refused, signed, terms

THIEF = STRANGER.stash
assert SIGNER == APP, "the vouchers of the chain are signed by the stolen key"


@pytest.fixture
def chain() -> BudgetChain:
    return budget_chain()


def test_the_key_alone_moves_no_money(chain: BudgetChain) -> None:
    budget_id = chain.granted()
    account = chain.budget(budget_id).account
    transfer = Balances.transfer_all(dest=THIEF, keep_alive=False)
    tried: dict[Any, type[DispatchError]] = {
        spend(budget_id, transfer): ev.NotAllowed,
        spend(budget_id, Utility.batch_all(calls=(post(terms()), transfer))): ev.NotAllowed,
        spend(budget_id, spend(budget_id, transfer)): ev.NotAllowed,
        spend(budget_id, opening(signer=THIEF)): ev.NotAllowed,
        Balances.transfer_allow_death(dest=THIEF, value=OGPU): FundsUnavailable,
        Budgets.withdraw(budget=budget_id, amount=1): ev.NotBudgetOwner,
        Budgets.close(budget=budget_id): ev.NotBudgetOwner,
        Budgets.grant(budget=budget_id, delegate=THIEF, caps=caps()): ev.NotBudgetOwner,
        Budgets.grant(budget=budget_id, delegate=APP, caps=caps(total=MONEY)): ev.NotBudgetOwner,
    }
    chain.block(*(refused(APP, call, error) for call, error in tried.items()))
    assert (chain.money(budget_id), chain.free(THIEF)) == (MONEY, 0)
    assert chain.owned(account) == MONEY


def test_a_batch_outside_moves_no_money_either(chain: BudgetChain) -> None:
    """Batches pass on their origin, and each spend inside has its own check."""
    budget_id = chain.granted(total=DEPOSIT)
    bought = spend(budget_id, opening(signer=APP))
    chain = with_utility(chain)
    chain.block(refused(APP, Utility.batch_all(calls=(bought, bought)), ev.OverTotalCap))
    assert chain.delegate(budget_id).spent == 0
    chain.block(signed(APP, Utility.batch(calls=(bought, bought))))
    assert chain.delegate(budget_id).spent == DEPOSIT
    assert chain.room.session_count.get() == 1


def with_utility(chain: BudgetChain) -> BudgetChain:
    """Return the chain with batches, in the same state."""
    with_batches = budget_chain(pallets=(*chain.pallets, Utility))
    with_batches.state, with_batches.height = chain.state, chain.height
    return with_batches


def test_others_do_not_act_for_the_account(chain: BudgetChain) -> None:
    """Neither owner nor delegate signs for the account, so units run on and sessions close by their signer."""
    budget_id = chain.granted()
    (unit_id,) = chain.spend_post(budget_id, terms())
    session_id = chain.spend_seated(budget_id)
    for account in (OWNER.stash, APP):
        chain.block(refused(account, InferenceMarket.cancel(unit=unit_id), NotCustomer))
    chain.block(refused(OWNER.stash, Sessions.close(session=session_id), NotSessionParty))
    chain.block(signed(APP, Sessions.close(session=session_id)))


def test_a_thief_gets_at_most_the_deposits_of_open_sessions_and_the_caps(chain: BudgetChain) -> None:
    """The owner revokes after the theft. The thief's provider then claims all that the deposits cover, and no more."""
    total = 3 * OGPU
    budget_id = chain.granted(total=total)
    account = chain.budget(budget_id).account
    opened = [chain.spend_seated(budget_id, deposit=OGPU) for _ in range(2)]
    opened.append(chain.spend_open(budget_id, deposit=OGPU))
    chain.block(refused(APP, spend(budget_id, opening(signer=APP)), ev.OverTotalCap))
    chain.block(signed(OWNER.stash, Budgets.revoke(budget=budget_id, delegate=APP)))
    assert chain.is_over(opened[2]), "a waiting session pays nobody"
    until = chain.height + REVOKED_BLOCKS
    for session_id in opened[:2]:
        assert chain.session(session_id).deposit == OGPU
        all_tokens = OGPU * 1_000 // RATE
        owner = chain.leg(session_id).owner
        chain.block(refused(owner, claims(session_id, 0, all_tokens + 1), VoucherUnfunded))
        chain.block(chain.claim(session_id, all_tokens))
    chain.blocks_to(until + 1)
    assert all(chain.is_over(session_id) for session_id in opened)
    assert MONEY - chain.owned(account) == 2 * OGPU <= total
    close = Budgets.close(budget=budget_id)
    chain.block(signed(OWNER.stash, Budgets.withdraw(budget=budget_id, amount=1)), signed(OWNER.stash, close))


def test_a_voucher_after_the_window_pays_nothing(chain: BudgetChain) -> None:
    budget_id = chain.granted()
    account = chain.budget(budget_id).account
    session_id = chain.spend_seated(budget_id)
    owner = chain.leg(session_id).owner
    chain.block(signed(OWNER.stash, Budgets.revoke(budget=budget_id, delegate=APP)))
    chain.blocks(REVOKED_BLOCKS)
    assert chain.height == chain.session(session_id).claims_end
    chain.block(refused(owner, claims(session_id, 0, 10_000), UnknownSession))
    assert chain.is_over(session_id)
    place_pay = MONEY - chain.owned(account)
    assert place_pay < OGPU // 100, "the least pay of the place until the revocation"


def test_another_budget_of_the_same_key_needs_its_own_revocation(chain: BudgetChain) -> None:
    first, second = chain.granted(total=DEPOSIT), chain.granted(total=DEPOSIT)
    chain.block(signed(OWNER.stash, Budgets.revoke(budget=first, delegate=APP)))
    chain.block(signed(APP, spend(second, opening(signer=APP))), refused(APP, spend(first, post()), ev.UnknownDelegate))


def test_the_day_cap_bounds_a_thief_until_the_owner_sees_it(chain: BudgetChain) -> None:
    budget_id = chain.granted(day=2 * DEPOSIT)

    def greedy(bound: Bound) -> None:
        for _ in range(20):
            for call in (opening(signer=APP), post(terms(OGPU)), opening(signer=APP, deposit=OGPU // 10)):
                try:
                    with bound.overlay.transaction():
                        bound.dispatch(spend(budget_id, call), Signed(APP))
                except ev.OverDayCap:
                    continue

    chain.block(greedy)
    assert 2 * DEPOSIT - OGPU // 10 < chain.delegate(budget_id).spent <= 2 * DEPOSIT
