"""The calls of owners: create, grant, withdraw, close; and each call by each wrong signer."""

from typing import Any

import pytest

from budget_chain import (
    APP,
    MONEY,
    OWNER,
    RECORD,
    STRANGER,
    BudgetChain,
    budget_chain,
    caps,
    post,
    principal_of,
    spend,
)
from gpu_tasks.market.budgets import events as ev
from gpu_tasks.market.budgets.budgets import Budgets
from gpu_tasks.market.budgets.records import BUDGET_DEPOSIT, DAY_BLOCKS, budget_account
from runtime.frame.errors import FundsUnavailable
from runtime.frame.holds import Hold
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from session_chain import DEPOSIT
from simulation.chains.market_chain import ENDOWMENT, OGPU, Keys, refused, signed, terms

EXISTENTIAL = Balances.existential_deposit.default
OTHER_OWNER, OTHER_KEY, OLD_KEY, LATE_KEY = Keys("alice").stash, Keys("other").stash, Keys("old").stash, b"l" * 32
UNKNOWN = b"?" * 32


@pytest.fixture
def chain() -> BudgetChain:
    return budget_chain()


def grant(budget_id: bytes, key: bytes = APP, **changed: Any) -> Any:
    return Budgets.grant(budget=budget_id, delegate=key, caps=caps(**changed))


def revoke(budget_id: bytes, key: bytes = APP) -> Any:
    return Budgets.revoke(budget=budget_id, delegate=key)


def held(chain: BudgetChain, budget_id: bytes) -> int:
    return int(chain.now()[Balances].held(OWNER.stash, Hold(BUDGET_DEPOSIT, budget_id)))


# ------------------------------------------------------------------------------------------------------------- its life


def test_a_budget_moves_money_into_an_account_without_a_key(chain: BudgetChain) -> None:
    budget_id = chain.create()
    (created,) = chain.happened(ev.BudgetCreated)
    assert created == ev.BudgetCreated(budget_id, OWNER.stash, budget_account(budget_id), MONEY)
    assert chain.budget(budget_id).account == created.account
    assert (chain.money(budget_id), held(chain, budget_id)) == (MONEY, RECORD)
    assert chain.free(OWNER.stash) == ENDOWMENT - MONEY - RECORD


def test_two_budgets_of_one_block_differ(chain: BudgetChain) -> None:
    chain.block(*(signed(OWNER.stash, Budgets.create(deposit=0)) for _ in range(2)))
    first, second = chain.happened(ev.BudgetCreated)
    assert first.budget != second.budget
    chain.block(*(signed(OWNER.stash, Budgets.close(budget=each.budget)) for each in (first, second)))
    chain.block(signed(OWNER.stash, Budgets.create(deposit=0)))
    assert chain.happened(ev.BudgetCreated)[-1].budget not in (first.budget, second.budget)


@pytest.mark.parametrize("deposit", [0, 1, EXISTENTIAL - 1, EXISTENTIAL])
def test_an_account_with_little_money_lives_and_loses_nothing(chain: BudgetChain, deposit: int) -> None:
    budget_id = chain.create(deposit)
    account = chain.budget(budget_id).account
    chain.block(signed(OTHER_OWNER, transfer(account, 1)))
    assert chain.money(budget_id) == deposit + 1
    chain.block(signed(OWNER.stash, Budgets.withdraw(budget=budget_id, amount=deposit)))
    assert chain.money(budget_id) == 1
    assert chain.now()[Balances].burned.get() == 0


def transfer(account: bytes, amount: int) -> Any:
    return Balances.transfer_allow_death(dest=account, value=amount)


def test_a_new_grant_replaces_caps_and_keeps_what_was_spent(chain: BudgetChain) -> None:
    budget_id = chain.granted()
    chain.spend_open(budget_id)
    before = chain.delegate(budget_id)
    chain.block(signed(OWNER.stash, grant(budget_id, total=DEPOSIT)))
    after = chain.delegate(budget_id)
    assert (after.spent, after.spent_in_day, after.record_deposit) == (DEPOSIT, DEPOSIT, before.record_deposit)
    assert after.caps == caps(total=DEPOSIT)
    assert (chain.budget(budget_id).delegates, held(chain, budget_id)) == (1, 2 * RECORD)


def test_a_delegate_that_returns_begins_anew(chain: BudgetChain) -> None:
    budget_id = chain.granted()
    chain.spend_open(budget_id)
    chain.block(signed(OWNER.stash, revoke(budget_id)))
    assert held(chain, budget_id) == RECORD
    chain.block(signed(OWNER.stash, grant(budget_id)))
    assert chain.delegate(budget_id).spent == 0


def test_a_closed_budget_leaves_nothing_behind(chain: BudgetChain) -> None:
    budget_id = chain.granted()
    account = chain.budget(budget_id).account
    chain.block(
        refused(OWNER.stash, Budgets.close(budget=budget_id), ev.BudgetHasDelegates),
        signed(APP, revoke(budget_id)),
        signed(OWNER.stash, Budgets.close(budget=budget_id)),
    )
    assert chain.happened(ev.BudgetClosed) == [ev.BudgetClosed(budget_id, OWNER.stash, MONEY)]
    assert chain.free(OWNER.stash) == ENDOWMENT
    room = chain.budgets
    for item in (room.budgets, room.delegates, room.owner_budgets, room.key_budgets, room.devices.principals):
        assert not list(item.items())
    info = chain.now()[System].account[account]
    assert (info.providers, info.sufficients, info.consumers, info.data.free) == (0, 0, 0, 0)
    chain.block(
        *(refused(OWNER.stash, call, ev.UnknownBudget) for call in calls_of(budget_id).values()),
    )


def test_an_account_in_use_is_not_closed_before_its_money_is_free() -> None:
    chain = budget_chain(constants={"Sessions.session_settle_blocks": 30})
    budget_id = chain.granted()
    session_id = chain.spend_seated(budget_id)
    chain.block(signed(APP, revoke(budget_id)))
    close = Budgets.close(budget=budget_id)
    chain.block(refused(OWNER.stash, close, ev.BudgetInUse))
    chain.block(signed(OWNER.stash, Budgets.withdraw(budget=budget_id, amount=chain.money(budget_id))))
    assert chain.money(budget_id) == 0
    chain.play_out(session_id)
    assert 0 < chain.money(budget_id) < DEPOSIT + OGPU, "the refund reached the empty account"
    chain.block(signed(OWNER.stash, close))


def test_an_owner_withdraws_free_money_alone(chain: BudgetChain) -> None:
    budget_id = chain.granted()
    chain.spend_open(budget_id)
    left = chain.money(budget_id)
    chain.block(
        refused(OWNER.stash, Budgets.withdraw(budget=budget_id, amount=left + 1), FundsUnavailable),
        signed(OWNER.stash, Budgets.withdraw(budget=budget_id, amount=left)),
    )
    assert chain.money(budget_id) == 0


# --------------------------------------------------------------------------------------------------------------- limits


def test_budgets_and_delegates_are_limited(chain: BudgetChain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_tasks.market.budgets.budgets.BUDGETS_PER_OWNER_MAX", 1)
    monkeypatch.setattr("gpu_tasks.market.budgets.budgets.DELEGATES_MAX", 1)
    budget_id = chain.granted()
    chain.block(
        refused(OWNER.stash, Budgets.create(deposit=0), ev.TooManyBudgets),
        refused(OWNER.stash, grant(budget_id, OTHER_KEY), ev.TooManyDelegates),
        signed(OWNER.stash, grant(budget_id)),
        signed(OTHER_OWNER, Budgets.create(deposit=0)),
    )


@pytest.mark.parametrize("lacks", ["the deposit", "the record", "a delegate's record"])
def test_an_owner_without_the_money_changes_nothing(chain: BudgetChain, lacks: str) -> None:
    budget_id = chain.create()
    free = chain.free(OWNER.stash)
    if lacks == "the deposit":
        call = Budgets.create(deposit=free - RECORD + 1)
    else:
        chain.block(signed(OWNER.stash, transfer(OTHER_OWNER, free - RECORD + 1)))
        call = Budgets.create(deposit=0) if lacks == "the record" else grant(budget_id)
    before = len(list(chain.budgets.budgets.items()))
    chain.block(refused(OWNER.stash, call, FundsUnavailable))
    assert len(list(chain.budgets.budgets.items())) == before
    assert chain.budget(budget_id).delegates == 0


def test_work_of_a_budget_is_work_of_its_owner(chain: BudgetChain) -> None:
    """No device of the owner is drawn, because the account acts for the owner's stash."""
    alice, bob, charlie = chain.validators
    chain.block(signed(alice.stash, transfer(alice.provider, OGPU)))
    for owner in (alice.stash, alice.provider):
        budget_id = chain.create(0, owner)
        assert principal_of(chain, chain.budget(budget_id).account) == alice.stash
    budget_id = chain.create(MONEY, alice.stash)
    chain.block(signed(alice.stash, grant(budget_id, OTHER_KEY)))
    for _ in range(2):
        session = chain.session(chain.spend_seated(budget_id, OTHER_KEY))
        assert session.spare is not None
        assert {session.legs[0].owner, session.spare.owner} == {bob.stash, charlie.stash}


# -------------------------------------------------------------------------------------------------------- wrong signers


def calls_of(budget_id: bytes) -> dict[str, Any]:
    """Return the calls about a budget."""
    return {
        "grant": grant(budget_id),
        "revoke": revoke(budget_id),
        "spend": spend(budget_id, post(terms())),
        "withdraw": Budgets.withdraw(budget=budget_id, amount=1),
        "close": Budgets.close(budget=budget_id),
    }


RIGHT = {
    "grant": {"owner"},
    "revoke": {"owner", "delegate"},
    "spend": {"delegate"},
    "withdraw": {"owner"},
    "close": {"owner"},
}
SIGNERS = {
    "owner": OWNER.stash,
    "delegate": APP,
    "stranger": STRANGER.stash,
    "delegate of another budget": OTHER_KEY,
    "owner of another budget": OTHER_OWNER,
    "revoked": OLD_KEY,
    "expired": LATE_KEY,
    "provider": Keys("bob").stash,
    "provider's key": Keys("bob").provider,
}


@pytest.mark.parametrize("name", RIGHT)
def test_each_call_refuses_each_wrong_signer(chain: BudgetChain, name: str) -> None:
    budget_id = chain.granted()
    other = chain.create(0, OTHER_OWNER)
    chain.block(
        signed(OTHER_OWNER, grant(other, OTHER_KEY)),
        signed(OWNER.stash, grant(budget_id, OLD_KEY)),
        signed(OWNER.stash, revoke(budget_id, OLD_KEY)),
        signed(OWNER.stash, grant(budget_id, LATE_KEY, expires_at=chain.height + 1)),
    )
    call = calls_of(budget_id)[name]
    before = chain.budget(budget_id)
    for role, account in SIGNERS.items():
        if role not in RIGHT[name]:
            error: Any = ev.NotBudgetOwner
            if name == "spend":
                error = ev.DelegateExpired if role == "expired" else ev.UnknownDelegate
            chain.block(refused(account, call, error))
    assert chain.budget(budget_id) == before
    assert chain.money(budget_id) == MONEY
    if name == "close":
        for key in (APP, LATE_KEY):
            chain.block(signed(key, revoke(budget_id, key)))
    right = min(RIGHT[name])
    chain.block(signed(SIGNERS[right], call))


def test_unknown_budgets_and_delegates_are_refused(chain: BudgetChain) -> None:
    budget_id = chain.granted()
    chain.block(
        *(refused(OWNER.stash, call, ev.UnknownBudget) for call in calls_of(UNKNOWN).values()),
        refused(OWNER.stash, revoke(budget_id, OTHER_KEY), ev.UnknownDelegate),
        refused(OTHER_KEY, revoke(budget_id, OTHER_KEY), ev.UnknownDelegate),
    )


def test_a_delegate_expires_in_the_block_of_its_caps(chain: BudgetChain) -> None:
    budget_id = chain.granted(expires_at=10)
    chain.blocks_to(8)
    call = spend(budget_id, post(terms()))
    chain.block(signed(APP, call))
    chain.block(refused(APP, call, ev.DelegateExpired))
    chain.block(signed(OWNER.stash, grant(budget_id, expires_at=DAY_BLOCKS)), signed(APP, call))
