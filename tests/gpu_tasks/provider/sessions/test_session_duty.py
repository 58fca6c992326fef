"""The duty of sessions over a fake chain: serving, periods, claims, pay, restarts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from echoing_session import asking
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.sessions.money import collateral_of, fees_of
from gpu_tasks.market.sessions.records import CLAIMS_OPEN_MAX, FORMER_FIRST_BLOCKS, with_leg
from gpu_tasks.market.sessions.spares import PROOF_BLOCKS, proof_amount
from gpu_tasks.market.sessions.vouchers import session_claim_id
from gpu_tasks.provider.execution.device_times import Activity
from gpu_tasks.provider.sessions.session_duty import PERIOD_BLOCKS, URGENT_BLOCKS, amount_max
from gpu_tasks.sessions.messages import SessionEntered
from gpu_tasks.tunnel.frames import Converse, RunProgram
from played_sessions import (
    CUSTOMER_SEAL,
    DEVICE,
    FakeSessions,
    PlayedProvider,
    StreamedEcho,
    signed_by_customer,
    terms_of,
)
from session_streams import FakeCustomer, FakeStream

SESSION, OTHER = bytes([31]) * 32, bytes([32]) * 32
QUESTION = bytes(range(100))
AMOUNT = 100 * 500 + 100 * 1_000
"""The price of `QUESTION` and its answer."""


class _Entrance:
    """The entrance of a session at the duty, as the tunnel uses it."""

    def __init__(self, played: PlayedProvider, session_id: bytes) -> None:
        self._played, self._session_id = played, session_id

    async def serve(self, stream: FakeStream) -> None:
        """Serve a stream."""
        target = self._played.duty.find(self._session_id)
        assert target is not None
        assert target.customer_key == CUSTOMER_SEAL.public
        await target.serve_stream(stream, Converse(0))  # type: ignore[arg-type]  # a fake stream


async def chat(played: PlayedProvider, customer: FakeCustomer, *answers: bytes, session_id: bytes = SESSION) -> None:
    """Enter, get some answers, pay them, and leave."""
    serving = await customer.enter(_Entrance(played, session_id))
    for answer in answers:
        customer.ask(answer)
        await customer.finish()
    customer.hang_up()
    await serving


@asynccontextmanager
async def playing(folder: Path, chain: FakeSessions | None = None) -> AsyncIterator[PlayedProvider]:
    """Yield a running provider."""
    played = PlayedProvider(folder, chain)
    try:
        yield played
    finally:
        await played.close()


def a_customer(period: int = 0, session_id: bytes = SESSION) -> FakeCustomer:
    """Return a customer with a real key."""
    return FakeCustomer(period, terms_of(session_id), signed_by_customer)


def claims_of(chain: FakeSessions) -> list[tuple[int, bool]]:
    """Return the sent claims: their periods, and whether each is the last."""
    claims = [call.named_arguments for call in chain.calls if "voucher" in call.named_arguments]
    return [(arguments["voucher"].period, arguments["is_last"]) for arguments in claims]


async def test_a_session_is_served_once_it_is_seated_and_its_model_is_loaded(tmp_path: Path) -> None:
    """The worker has the offered places."""
    async with playing(tmp_path) as played:
        await played.step()
        assert played.duty.find(SESSION) is None
        played.chain.open(SESSION)
        await played.step(2)
        [host] = played.made
        assert (host.places, host.starts > 0) == (2, True)
        customer = a_customer()
        await chat(played, customer, QUESTION)
        assert bytes(customer.received) == QUESTION
        assert played.heard.names().count("session_opened") == 1


async def test_a_spare_loads_the_model_and_lets_nobody_in(tmp_path: Path) -> None:
    """It serves after the hand-over."""
    async with playing(tmp_path) as played:
        played.chain.open(SESSION, spare=True)
        await played.step(2)
        assert len(played.made) == 1
        assert played.duty.find(SESSION) is None
        assert played.heard.names().count("session_spared") == 1
        assert "session_opened" not in played.heard.names()


async def test_an_answer_occupies_the_device_while_it_is_open(tmp_path: Path) -> None:
    """Two answers of one worker are one user of the device."""
    async with playing(tmp_path) as played:
        hosts = played.hosts
        for session_id in (SESSION, OTHER):
            played.chain.open(session_id)
        played.times.add(DEVICE)
        await played.step(2)
        name = DEVICE, StreamedEcho.workload_id, StreamedEcho.model_id
        assert (hosts.at_work(DEVICE), played.times.is_idle(DEVICE)) == (0, True)
        async with aclosing(hosts.generate(name, asking(QUESTION))) as first:
            await anext(first)
            async with aclosing(hosts.generate(name, asking(QUESTION))) as second:
                await anext(second)
                assert (hosts.at_work(DEVICE), hosts.at_work(OTHER)) == (1, 0)
            assert played.times.present()[DEVICE].state is Activity.SESSIONS
        assert (hosts.at_work(DEVICE), played.times.is_idle(DEVICE)) == (0, True)


async def test_a_device_is_in_use_while_its_sessions_are_open(tmp_path: Path) -> None:
    """As provider, or as spare."""
    async with playing(tmp_path) as played:
        await played.step()
        assert played.duty.devices_in_use() == set()
        for is_spare in (False, True):
            played.chain.open(SESSION, spare=is_spare)
            await played.step()
            assert played.duty.devices_in_use() == {DEVICE}
            played.chain.close(SESSION)
            await played.step()
            assert played.duty.devices_in_use() == set()


async def test_a_session_has_no_programs(tmp_path: Path) -> None:
    """A stream with another ask ends."""
    async with playing(tmp_path) as played:
        played.chain.open(SESSION)
        await played.step()
        target, stream = played.duty.find(SESSION), FakeStream()
        assert target is not None
        ask = RunProgram(("ls",), is_terminal=False, rows=0, columns=0)
        await target.serve_stream(stream, ask)  # type: ignore[arg-type]  # a fake stream
        assert stream.ended is not None
        assert stream.ended[0] == 1


async def test_a_period_is_claimed_after_its_blocks_and_paid(tmp_path: Path) -> None:
    """The earnings have the price without the fee, and the chat is gone then."""
    async with playing(tmp_path) as played:
        chain = played.chain
        chain.open(SESSION)
        await played.step()
        await chat(played, a_customer(), QUESTION)
        await played.step(PERIOD_BLOCKS)
        assert chain.calls == []
        await played.step(2)
        assert claims_of(chain) == [(0, False)]
        claim_id = session_claim_id(SESSION, 0)
        await played.step(8)
        assert played.store.period_of_claim(claim_id) is not None, "checkers may ask for it"
        chain.conclude(claim_id)
        await played.step(4)
        assert played.store.periods(SESSION) == []
        [payment] = played.earnings.read()
        assert (payment.grains, payment.tokens, payment.service) == (AMOUNT - AMOUNT * 3 // 100, 100, "service 4")
        assert claims_of(chain) == [(0, False)]
        again = a_customer(period=1)
        await chat(played, again, QUESTION)
        assert bytes(again.received) == QUESTION


async def leave_after_prompt(played: PlayedProvider, customer: FakeCustomer) -> None:
    """Enter, pay a prompt, and leave."""
    serving = await customer.enter(_Entrance(played, SESSION))
    customer.ask(QUESTION)
    await customer.step(pays=False)
    customer.hang_up()
    await serving


async def test_a_period_that_is_worth_nothing_goes_on(tmp_path: Path) -> None:
    """Its claim would be refused for ever, and so would those of all later periods."""
    async with playing(tmp_path) as played:
        played.chain.open(SESSION, input_share=0)
        await played.step()
        customer = a_customer()
        customer.end.terms = replace(customer.end.terms, input_share=0)
        await leave_after_prompt(played, customer)
        await played.step(2 * URGENT_BLOCKS)
        assert played.chain.calls == []
        await chat(played, customer, QUESTION)
        await played.step(PERIOD_BLOCKS + 2)
        assert claims_of(played.chain) == [(0, False)]


async def test_a_session_that_closes_with_a_worthless_period_is_not_claimed(tmp_path: Path) -> None:
    """Each refused claim would cost a fee."""
    async with playing(tmp_path) as played:
        played.chain.open(SESSION, input_share=0)
        await played.step()
        await leave_after_prompt(played, a_customer())
        played.chain.close(SESSION)
        await played.step(20)
        assert played.chain.calls == []


async def test_a_rich_period_is_claimed_at_once(tmp_path: Path) -> None:
    """It ends at half of what its claim may have."""
    async with playing(tmp_path) as played:
        played.chain.open(SESSION, deposit=4 * AMOUNT)
        await played.step()
        await chat(played, a_customer(), QUESTION, QUESTION)
        await played.step(3)
        assert claims_of(played.chain) == [(0, False)]


async def test_a_closing_session_is_claimed_to_its_end_and_its_place_is_paid(tmp_path: Path) -> None:
    """The last claim says so. The customer cannot enter any more."""
    async with playing(tmp_path) as played:
        chain = played.chain
        chain.open(SESSION)
        await played.step()
        await chat(played, a_customer(), QUESTION)
        await played.step(50_000 // 100)
        chain.conclude(session_claim_id(SESSION, 0))
        await chat(played, a_customer(period=1), QUESTION[:9])
        chain.close(SESSION)
        await played.step(2)
        assert played.duty.find(SESSION) is None
        assert claims_of(chain) == [(0, False), (1, True)]
        await played.step(4)
        chain.conclude(session_claim_id(SESSION, 1))
        await played.step(4)
        chain.end(SESSION)
        await played.step(4)
        assert played.store.noted() == []
        assert played.heard.names().count("session_ended") == 1
        assert [payment.name.split()[0] for payment in played.earnings.read()] == ["session", "session"]


async def test_a_former_provider_notes_its_claim_and_the_rest_of_its_place(tmp_path: Path) -> None:
    """The session goes on at the spare, and its former provider is told apart by its leg alone."""
    async with playing(tmp_path) as played:
        chain = played.chain
        chain.open(SESSION, place_rate=AMOUNT // 10)
        await played.step()
        await chat(played, a_customer(), QUESTION)
        await played.step(19)
        chain.hand_over(SESSION)
        await played.step(2)
        assert claims_of(chain) == [(0, True)]
        chain.conclude(session_claim_id(SESSION, 0))
        chain.release(SESSION)
        await played.step(8)
        assert claims_of(chain) == [(0, True)]
        assert [payment.grains for payment in played.earnings.read()] == [AMOUNT - AMOUNT * 3 // 100] * 2
        assert played.store.noted() == []
        assert played.duty.find(SESSION) is None


async def test_a_new_provider_lets_the_former_one_claim_first(tmp_path: Path) -> None:
    """The chain would refuse its claim for ten blocks."""
    async with playing(tmp_path) as played:
        chain = played.chain
        chain.open(SESSION, spare=True)
        await played.step(2)
        chain.hand_over(SESSION)
        handed_at = chain.height
        await played.step(2)
        await chat(played, a_customer(1), QUESTION)
        chain.close(SESSION)
        while chain.height < handed_at + FORMER_FIRST_BLOCKS:
            assert claims_of(chain) == []
            await played.step()
        await played.step(2)
        assert claims_of(chain) == [(1, True)]


async def test_the_proof_of_a_spare_keeps_its_part_of_the_deposit(tmp_path: Path) -> None:
    """A voucher for it would find too little once the proof has come."""
    async with playing(tmp_path) as played:
        chain = played.chain
        session = chain.open(SESSION, deposit=1)
        proof = proof_amount(session)
        least = AMOUNT + fees_of(session.rules, AMOUNT)
        chain.open(SESSION, deposit=least + proof + fees_of(session.rules, proof) - 1)
        await played.step()
        customer = a_customer()
        serving = await customer.enter(_Entrance(played, SESSION))
        assert await customer.refusal_of(QUESTION) == "deposit_spent"
        customer.hang_up()
        await serving
        await played.step(PROOF_BLOCKS + 1)
        await chat(played, a_customer(), QUESTION)


async def test_an_idle_place_is_paid_by_the_block(tmp_path: Path) -> None:
    """The pay of the place is noted when the chain has dropped the session."""
    async with playing(tmp_path) as played:
        chain = played.chain
        chain.open(SESSION)
        await played.step(100)
        chain.close(SESSION)
        await played.step(8)
        chain.end(SESSION)
        await played.step(4)
        [payment] = played.earnings.read()
        assert payment.grains == 100 * 7 - 100 * 7 * 3 // 100
        assert payment.name.startswith("session place")


async def test_a_refuted_claim_earns_nothing(tmp_path: Path) -> None:
    """Its chat goes all the same."""
    async with playing(tmp_path) as played:
        chain = played.chain
        chain.open(SESSION, deposit=4 * AMOUNT)
        await played.step()
        await chat(played, a_customer(), QUESTION, QUESTION)
        await played.step(8)
        chain.conclude(session_claim_id(SESSION, 0), ClaimOutcome.REFUTED)
        await played.step(4)
        assert played.earnings.read() == []
        assert played.store.periods(SESSION) == []


async def test_a_claim_waits_while_the_collateral_stands_behind_others(tmp_path: Path) -> None:
    """It is sent once there is room."""
    async with playing(tmp_path) as played:
        chain = played.chain
        session = chain.open(SESSION, deposit=4 * AMOUNT)
        full = replace(session.legs[0], engaged=session.legs[0].collateral)
        chain.sessions[SESSION] = with_leg(session, 0, full)
        await played.step()
        await chat(played, a_customer(), QUESTION, QUESTION)
        await played.step(10)
        assert chain.calls == []
        assert played.heard.names().count("session_claim_waits") == 1
        chain.sessions[SESSION] = with_leg(chain.sessions[SESSION], 0, replace(full, engaged=0, claims=CLAIMS_OPEN_MAX))
        await played.step(5)
        assert chain.calls == []
        chain.sessions[SESSION] = with_leg(chain.sessions[SESSION], 0, replace(full, engaged=0))
        await played.step()
        assert claims_of(chain) == [(0, False)]


async def test_a_refused_claim_is_sent_again(tmp_path: Path) -> None:
    """Other sessions go on."""
    async with playing(tmp_path) as played:
        chain = played.chain
        chain.open(SESSION, deposit=4 * AMOUNT)
        chain.open(OTHER)
        await played.step()
        await chat(played, a_customer(), QUESTION, QUESTION)
        chain.is_refusing = True
        await played.step(3)
        assert chain.claims == {}
        chain.is_refusing = False
        await played.step(4)
        assert list(chain.claims) == [session_claim_id(SESSION, 0)]
        await chat(played, a_customer(session_id=OTHER), QUESTION, session_id=OTHER)


async def test_a_customer_that_never_pays_its_answer_does_not_keep_a_period_open(tmp_path: Path) -> None:
    """Its stream ends, and the paid part is claimed."""
    async with playing(tmp_path) as played:
        played.chain.open(SESSION)
        await played.step()
        customer = a_customer()
        serving = await customer.enter(_Entrance(played, SESSION))
        customer.ask(bytes(range(200)))
        for _ in range(8):
            await customer.step(pays=False)
        await played.step(PERIOD_BLOCKS + 2)
        assert played.chain.calls == []
        await played.step(URGENT_BLOCKS - PERIOD_BLOCKS)
        await serving
        assert claims_of(played.chain) == [(0, False)]


async def test_a_restarted_daemon_claims_what_is_on_its_disk(tmp_path: Path) -> None:
    """A period that was closed before the kill takes no voucher, and is claimed once."""
    chain = FakeSessions()
    async with playing(tmp_path, chain) as played:
        chain.open(SESSION, deposit=4 * AMOUNT)
        await played.step()
        await chat(played, a_customer(), QUESTION, QUESTION)
        chain.is_refusing = True
        await played.step()
        assert [kept.is_closed for kept in played.store.periods(SESSION)] == [True]
    chain.is_refusing = False
    async with playing(tmp_path, chain) as played:
        await played.step()
        assert list(chain.claims) == [session_claim_id(SESSION, 0)]
        customer = a_customer()
        serving = customer.connect(_Entrance(played, SESSION))
        assert await customer.next() == SessionEntered(1, None)
        customer.hang_up()
        await serving
        assert "session_opened" not in played.heard.names()


async def test_a_session_that_ends_while_the_daemon_is_off_is_noted_later(tmp_path: Path) -> None:
    """A claimed period without a refutation was paid."""
    chain = FakeSessions()
    async with playing(tmp_path, chain) as played:
        chain.open(SESSION, deposit=4 * AMOUNT)
        await played.step()
        await chat(played, a_customer(), QUESTION, QUESTION)
        await played.step(3)
    chain.claims.clear()
    chain.end(SESSION)
    async with playing(tmp_path, chain) as played:
        await played.step(4)
        assert played.store.noted() == []
        [payment] = played.earnings.read()
        assert payment.grains == 2 * AMOUNT - 2 * AMOUNT * 3 // 100


async def test_a_session_that_is_not_final_yet_is_not_forgotten(tmp_path: Path) -> None:
    """A daemon that trusts its node sees newer blocks than the final one."""
    async with playing(tmp_path) as played:
        played.chain.open(SESSION)
        played.chain.final = FakeSessions()
        await played.step(8)
        assert [note.device for note in played.store.noted()] == [DEVICE]


async def test_a_model_without_sessions_stays_loaded_for_a_while(tmp_path: Path) -> None:
    """Then its worker ends."""
    async with playing(tmp_path) as played:
        played.chain.open(SESSION)
        await played.step(3)
        played.chain.close(SESSION)
        await played.step(100)
        assert not played.made[0].is_closed
        await played.step(100)
        assert played.made[0].is_closed


async def test_a_deposit_that_is_claimed_is_not_spent_twice(tmp_path: Path) -> None:
    """A new period may be worth what closed ones leave."""
    async with playing(tmp_path) as played:
        chain = played.chain
        chain.open(SESSION, deposit=5 * AMOUNT)
        await played.step()
        chain.is_refusing = True
        await chat(played, a_customer(), QUESTION, QUESTION)
        await played.step()
        customer = a_customer(period=1)
        serving = await customer.enter(_Entrance(played, SESSION))
        customer.ask(QUESTION)
        await customer.finish()
        assert await customer.refusal_of(QUESTION) == "deposit_spent"
        customer.hang_up()
        await serving


@given(deposit=st.integers(0, 10**12), left=st.integers(0, 10**12))
def test_the_greatest_amount_of_a_period_can_be_claimed_and_one_more_cannot(deposit: int, left: int) -> None:
    """By the rules of the pallet."""
    session = FakeSessions().open(SESSION, deposit=deposit)
    collateral, rules = session.legs[0].collateral, session.rules

    def fits(amount: int) -> bool:
        is_secured = collateral_of(rules, amount) <= collateral and collateral_of(rules, amount, 256) <= collateral
        return amount + fees_of(rules, amount) <= left and is_secured

    amount = amount_max(session, collateral, left)
    assert not amount or fits(amount)
    assert not fits(amount + 1) or amount > 10**11


Step = Callable[[PlayedProvider, FakeCustomer], Awaitable[None]]


async def test_periods_are_claimed_in_order_over_many_restarts(tmp_path: Path) -> None:
    """Each answer is claimed once, to the grain."""
    chain, customer = FakeSessions(), a_customer()
    chain.open(SESSION, deposit=10**8)
    sent = 0
    for round_number in range(6):
        async with playing(tmp_path, chain) as played:
            await played.step()
            size = 10 * (round_number + 1)
            await chat(played, customer, QUESTION[:size])
            sent += size * 1_500
            await played.step(PERIOD_BLOCKS + 2 if round_number % 2 else 1)
            await asyncio.sleep(0)
    async with playing(tmp_path, chain) as played:
        chain.close(SESSION)
        await played.step(2)
    assert [period for period, _ in claims_of(chain)] == [0, 1, 2]
    assert sum(claim.amount for claim in chain.claims.values()) == sent
