"""Queries about sessions: a session, pages of them by customer and by device, the period of a claim, places."""

from typing import Any

from gpu_tasks.market.sessions import sessions_api
from gpu_tasks.market.sessions.records import left_of
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.sessions_api import SessionsApi, SessionStatus
from gpu_tasks.market.sessions.vouchers import session_claim_id
from runtime.encoding.codec import codec
from runtime.frame.api import Apis
from session_chain import DEPOSIT, SIGNER, SessionChain, session_chain
from simulation.chains.market_chain import CUSTOMER, signed


def asked(chain: SessionChain, method: str, *arguments: Any) -> Any:
    apis = Apis(chain.runtime, (SessionsApi,))
    api = SessionsApi(apis, chain.state, b"b" * 32, lambda *_: True)
    return getattr(api, method)(*arguments)


def test_a_session_is_shown_with_its_clocks() -> None:
    chain = session_chain(5)
    session_id = chain.open()
    status = asked(chain, "session", session_id)
    assert (status.id, status.left, status.legs) == (session_id, DEPOSIT, ())
    chain.blocks(4)
    chain.block(chain.claim(session_id))
    session = chain.session(session_id)
    status = asked(chain, "session", session_id)
    assert (status.session, status.left) == (session, left_of(session))
    (clock,) = status.legs
    assert clock.period == 1
    assert clock.claims_until == session.expires_at + session.rules.settle_blocks
    assert clock.collateral_left == status.collateral - session.legs[0].engaged
    claim = asked(chain, "period_claim", session_claim_id(session_id, 0))
    assert (claim.session, claim.period) == (session_id, 0)
    chain.block(signed(SIGNER, Sessions.close(session=session_id)))
    chain.block(chain.claim(session_id, is_last=True))
    assert asked(chain, "session", session_id).legs[0].claims_until == 0
    assert asked(chain, "session", bytes(32)) is None
    assert asked(chain, "period_claim", bytes(32)) is None


def test_a_provider_that_left_before_its_first_claim_has_a_period() -> None:
    """Otherwise its spare and its customer could not read the session, nor any other on the same page."""
    chain = session_chain()
    session_id = chain.seated()
    chain.block(signed(chain.provider(session_id).provider, Sessions.leave(session=session_id)))
    chain.block(signed(SIGNER, Sessions.hand_over(session=session_id)))
    status = asked(chain, "session", session_id)
    assert [clock.period for clock in status.legs] == [0, 1]
    assert codec(SessionStatus).decode(codec(SessionStatus).encode(status)) == status


def test_sessions_come_in_pages(monkeypatch: Any) -> None:
    monkeypatch.setattr(sessions_api, "SESSIONS_SHOWN_MAX", 2)
    chain = session_chain(1, places=5)
    (alice,) = chain.validators
    opened = {chain.open() for _ in range(5)}
    chain.blocks(4)
    for method, party in (("sessions_of_customer", CUSTOMER.stash), ("sessions_of_device", alice.device)):
        shown: list[bytes] = []
        while page := asked(chain, method, party, shown[-1] if shown else None):
            assert len(page) <= 2
            shown += [status.id for status in page]
        assert len(shown) == 5
        assert set(shown) == opened
    places = asked(chain, "places", alice.device, 0)
    assert (places.places, places.sessions) == (5, 5)
    assert asked(chain, "places", alice.device, 1).places == 0
