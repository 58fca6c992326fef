"""The payments of sessions, computed again from events, are those of the chain. Each difference is a sentence."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from devnet.stage.measuring.session_ledger import SessionLedger, price_of_period
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.sessions.records import FORMER_FIRST_BLOCKS, SESSION_MONEY
from gpu_tasks.market.sessions.sessions import Sessions
from runtime.pallets.staking.trust_lock import Paid
from session_chain import ALWAYS, DEPOSIT, SIGNER, SessionChain, claims, proves, session_chain
from simulation.chains.market_chain import CUSTOMER, signed
from wallet.client import ChainClient

SHORT = {"Sessions.session_settle_blocks": 30}


class StateAtHand:
    """A client that reads the newest state of a chain in memory."""

    def __init__(self, chain: SessionChain) -> None:
        """Read this chain."""
        self._chain = chain

    async def read(self, item: Any, *keys: Any, at: bytes | None = None) -> Any:
        """See `ChainClient`."""
        pallet: Any = Sessions if item is Sessions.sessions else ResultClaims
        return getattr(self._chain.now()[pallet], item.attribute)[keys[0]]


def followed(chain: SessionChain, play: Callable[[], bytes], false: frozenset[bytes] = frozenset()) -> SessionLedger:
    """Return the ledger of a chain on which `play` uses a session to its end."""
    ledger, block = SessionLedger(false), chain.block

    def taken(*steps: Any, **options: Any) -> Any:
        bound = block(*steps, **options)
        if chain.events:
            asyncio.run(_take(ledger, chain))
        return bound

    chain.block = taken  # type: ignore[method-assign]
    session_id = play()
    chain.play_out(session_id)
    return ledger


async def _take(ledger: SessionLedger, chain: SessionChain) -> None:
    for event in chain.events:
        await ledger.take(cast("ChainClient", StateAtHand(chain)), chain.height, b"", event)


def a_checked_session(chain: SessionChain) -> bytes:
    """Prove the spare, claim a period, hand over, claim there, and close."""
    session_id = chain.seated()
    chain.play(3)
    prove(chain, session_id)
    former = chain.leg(session_id).owner
    chain.block(signed(former, claims(session_id, 0, 600)))
    chain.play(2)
    chain.block(signed(CUSTOMER.stash, Sessions.hand_over(session=session_id)))
    chain.play(FORMER_FIRST_BLOCKS)
    chain.block(chain.claim(session_id, 64))
    chain.play(2)
    chain.block(signed(SIGNER, Sessions.close(session=session_id)))
    return session_id


def prove(chain: SessionChain, session_id: bytes) -> None:
    """Let the spare send its proof."""
    spare = chain.session(session_id).spare
    assert spare is not None
    chain.block(signed(spare.owner, proves(session_id)))


def an_expired_session(chain: SessionChain) -> bytes:
    return chain.seated(term=20)


def a_session_with_a_spare(chain: SessionChain) -> bytes:
    """Let the spare stand by to the end of the term."""
    session_id = chain.seated(term=100)
    prove(chain, session_id)
    return session_id


@pytest.mark.parametrize(
    ("size", "play"), [
        (7, a_checked_session), (3, a_checked_session), (3, an_expired_session), (7, a_session_with_a_spare),
    ],
)  # fmt: skip
def test_every_payment_is_that_of_the_tables(size: int, play: Callable[[SessionChain], bytes]) -> None:
    chain = session_chain(size, constants=SHORT | (ALWAYS if size > 3 else {}))
    accounts = [one.stash for one in chain.validators] + [CUSTOMER.stash]
    before = {account: chain.owned(account) for account in accounts}
    ledger = followed(chain, lambda: play(chain))
    [trace] = ledger.sessions.values()
    assert list(trace.wrong()) == []
    assert trace.cost > 0
    assert {account: chain.owned(account) - before[account] for account in accounts} == {
        account: ledger.moved(account) for account in accounts
    }
    [(place, spent)] = [
        (place, event) for place, (_, event) in enumerate(trace.happened)
        if isinstance(event, Paid) and event.reason == SESSION_MONEY and event.amount == max(
            other.amount for other in trace.events(Paid) if other.reason == SESSION_MONEY
        )
    ][:1]  # fmt: skip
    trace.happened[place] = trace.happened[place][0], replace(spent, amount=spent.amount - 1)
    assert len(list(trace.wrong())) == 2


def test_a_refuted_provider_is_paid_nothing() -> None:
    chain = session_chain(7, constants=SHORT | ALWAYS)
    liars = frozenset(one.stash for one in chain.validators)

    def play() -> bytes:
        session_id = chain.seated()
        chain.mute = frozenset((chain.leg(session_id).owner,))
        chain.block(chain.claim(session_id, 600))
        chain.play(150)
        chain.block(signed(SIGNER, Sessions.close(session=session_id)))
        return session_id

    [trace] = followed(chain, play, liars).sessions.values()
    assert list(trace.wrong()) == []
    assert [claim.outcome for claim in trace.claims.values()] == [ClaimOutcome.REFUTED]
    assert trace.cost == 0


def test_a_small_deposit_bounds_the_pay_of_places() -> None:
    chain = session_chain(constants=SHORT)
    ledger = followed(chain, lambda: chain.seated(deposit=DEPOSIT // 10_000, term=300))
    [trace] = ledger.sessions.values()
    assert list(trace.wrong()) == []
    assert trace.cost == DEPOSIT // 10_000


def test_a_price_is_rounded_up_once() -> None:
    assert price_of_period(Totals(1, 1, 0, bytes(32)), 1, 1) == 1
    assert price_of_period(Totals(3, 400, 600, bytes(32)), 1_000, 250_000) == 700
    assert Counter([price_of_period(Totals(1, 0, tokens, bytes(32)), 10, 0) for tokens in range(1, 101)]) == {1: 100}
