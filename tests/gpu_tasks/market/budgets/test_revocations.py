"""A revoked delegate: its sessions close in the same call, and their providers may claim for 30 blocks."""

from typing import Any

import pytest

from budget_chain import (
    APP,
    MONEY,
    OWNER,
    BudgetChain,
    budget_chain,
    caps,
    spend,
)
from gpu_tasks.market.budgets import budgets as pallet
from gpu_tasks.market.budgets import events as ev
from gpu_tasks.market.budgets.budgets import Budgets
from gpu_tasks.market.budgets.records import REVOKED_BLOCKS
from gpu_tasks.market.sessions.events import ClaimsOver, SessionClosing, SessionEnded, SessionNotOpen
from gpu_tasks.market.sessions.records import SessionEnd, SessionState, claims_until, spare_of
from gpu_tasks.market.sessions.sessions import Sessions
from runtime.encoding.types import Signed, Weight
from session_chain import TERM, claims, opening
from simulation.chains.market_chain import CUSTOMER, Keys, refused, signed

OTHER = Keys("other app").stash


@pytest.fixture
def chain() -> BudgetChain:
    return budget_chain()


def revokes(budget_id: bytes, by: bytes = OWNER.stash, key: bytes = APP) -> Any:
    return signed(by, Budgets.revoke(budget=budget_id, delegate=key))


@pytest.mark.parametrize("by", [OWNER.stash, APP])
def test_a_revocation_closes_open_sessions(chain: BudgetChain, by: bytes) -> None:
    budget_id = chain.granted()
    session_id = chain.spend_seated(budget_id)
    chain.block(revokes(budget_id, by))
    session, until = chain.session(session_id), chain.height + REVOKED_BLOCKS
    assert (session.state, spare_of(session), session.legs[0].left_at) == (SessionState.CLOSING, None, chain.height)
    assert claims_until(session, session.legs[0]) == until
    assert chain.happened(SessionClosing)[-1] == SessionClosing(session_id, until)
    chain.block(
        refused(APP, spend(budget_id, opening(signer=APP)), ev.UnknownDelegate),
        refused(APP, Sessions.hand_over(session=session_id), SessionNotOpen),
        refused(APP, Sessions.close(session=session_id), SessionNotOpen),
    )


def test_a_provider_claims_for_thirty_blocks(chain: BudgetChain) -> None:
    budget_id = chain.granted()
    session_id = chain.spend_seated(budget_id)
    chain.block(revokes(budget_id))
    until = chain.height + REVOKED_BLOCKS
    chain.blocks_to(until - 1)
    chain.block(chain.claim(session_id, 64))
    assert chain.height == until
    chain.block(refused(chain.leg(session_id).owner, claims(session_id, 1, 64), ClaimsOver))


def test_a_waiting_session_ends_at_once(chain: BudgetChain) -> None:
    budget_id = chain.granted()
    session_id = chain.spend_open(budget_id)
    chain.block(revokes(budget_id))
    assert chain.happened(SessionEnded) == [SessionEnded(session_id, SessionEnd.WITHDRAWN, 0)]
    assert chain.money(budget_id) == MONEY
    assert not list(chain.room.draws.places.items())


def test_a_session_that_is_closing_closes_earlier(chain: BudgetChain) -> None:
    budget_id = chain.granted()
    session_id = chain.spend_seated(budget_id)
    chain.block(signed(APP, Sessions.close(session=session_id)))
    chain.blocks(10)
    chain.block(revokes(budget_id))
    session = chain.session(session_id)
    assert claims_until(session, session.legs[0]) == chain.height + REVOKED_BLOCKS
    chain.blocks(REVOKED_BLOCKS + 1)
    assert chain.is_over(session_id)


def test_a_window_that_ends_earlier_stays(chain: BudgetChain) -> None:
    budget_id = chain.granted()
    session_id = chain.spend_seated(budget_id)
    chain.block(signed(APP, Sessions.close(session=session_id)))
    session = chain.session(session_id)
    until = claims_until(session, session.legs[0])
    chain.blocks_to(until - 5)
    chain.block(revokes(budget_id))
    session = chain.session(session_id)
    assert claims_until(session, session.legs[0]) == until


def test_a_second_revocation_opens_no_window_again(chain: BudgetChain) -> None:
    budget_id = chain.granted()
    session_id = chain.spend_seated(budget_id)
    chain.block(revokes(budget_id))
    until = chain.height + REVOKED_BLOCKS
    chain.blocks(10)
    grant = Budgets.grant(budget=budget_id, delegate=APP, caps=caps())
    chain.block(signed(OWNER.stash, grant), revokes(budget_id))
    session = chain.session(session_id)
    assert claims_until(session, session.legs[0]) == until


def test_both_legs_of_a_session_claim_within_the_window(chain: BudgetChain) -> None:
    """The former leg left earlier, and still gets its 30 blocks."""
    budget_id = chain.granted()
    session_id = chain.spend_seated(budget_id)
    chain.block(signed(APP, Sessions.hand_over(session=session_id)))
    chain.blocks(3 * REVOKED_BLOCKS)
    chain.block(revokes(budget_id))
    session, until = chain.session(session_id), chain.height + REVOKED_BLOCKS
    assert [claims_until(session, leg) for leg in session.legs] == [until, until]
    chain.blocks_to(until - 1)
    first, second = (leg.owner for leg in session.legs)
    chain.block(signed(first, claims(session_id, 0)), signed(second, claims(session_id, 1)))
    chain.play_out(session_id)


def test_a_term_that_is_over_keeps_its_own_end(chain: BudgetChain, monkeypatch: pytest.MonkeyPatch) -> None:
    """The revocation may come before a late hook has closed the session."""
    budget_id = chain.granted()
    session_id = chain.spend_seated(budget_id)
    expires_at = chain.session(session_id).expires_at
    monkeypatch.setattr("gpu_tasks.market.sessions.sessions.STEP_BUDGET", Weight(0, 0))
    chain.blocks_to(expires_at + 5)
    assert chain.session(session_id).state is SessionState.OPEN
    chain.block(revokes(budget_id))
    session = chain.session(session_id)
    assert session.legs[0].left_at == expires_at
    assert claims_until(session, session.legs[0]) == chain.height + REVOKED_BLOCKS


def test_other_sessions_stay(chain: BudgetChain) -> None:
    """Those of another delegate of the budget, of another budget, and of the key's own money."""
    budget_id, other_budget = chain.granted(), chain.granted()
    chain.block(signed(OWNER.stash, Budgets.grant(budget=budget_id, delegate=OTHER, caps=caps())))
    stay = [chain.spend_open(budget_id, OTHER), chain.spend_open(other_budget), chain.open()]
    chain.blocks(3)
    closing = chain.spend_open(budget_id)
    chain.block(revokes(budget_id))
    assert chain.is_over(closing)
    assert all(chain.session(each).state is SessionState.OPEN for each in stay)
    assert chain.session(stay[2]).customer == CUSTOMER.stash
    chain.block(signed(APP, spend(other_budget, opening(signer=APP))))


def test_a_released_leg_stays_released(chain: BudgetChain) -> None:
    budget_id = chain.granted()
    session_id = chain.spend_seated(budget_id)
    chain.block(signed(APP, Sessions.hand_over(session=session_id)))
    former = chain.session(session_id).legs[0]
    chain.block(signed(former.owner, claims(session_id, 0, is_last=True)))
    chain.blocks(4)
    assert chain.session(session_id).legs[0].is_released
    chain.block(revokes(budget_id))
    chain.block(refused(former.owner, claims(session_id, 1), ClaimsOver))
    chain.play_out(session_id)
    assert chain.happened(SessionEnded)[-1].end is SessionEnd.SETTLED


def test_a_session_without_a_spare_and_with_open_claims_ends_after_them() -> None:
    chain = budget_chain(7, constants={"Sessions.session_check_rate": 1_000_000})
    budget_id = chain.granted()
    session_id = chain.spend_seated(budget_id, term=TERM)
    chain.block(chain.claim(session_id, 1_000))
    chain.block(revokes(budget_id))
    chain.play_out(session_id)
    assert chain.happened(SessionEnded)[-1].paid > 0


def test_a_revocation_weighs_the_sessions_that_it_reads(chain: BudgetChain) -> None:
    budget_id = chain.granted()
    chain.block(signed(OWNER.stash, Budgets.grant(budget=budget_id, delegate=OTHER, caps=caps())))
    chain.spend_open(budget_id)
    chain.spend_open(budget_id, OTHER)
    found: list[Any] = []
    call = Budgets.revoke(budget=budget_id, delegate=APP)
    chain.block(lambda bound: found.append(bound.dispatch(call, Signed(APP))))
    row = pallet._revoke_weight
    assert found[0].actual_weight == row(2)
    assert call.weight == row(64)
