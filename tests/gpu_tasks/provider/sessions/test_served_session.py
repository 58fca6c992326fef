"""A served session over fake streams, with a fake generator: answers, limits, breaks, periods."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from echoing_session import SESSION, TERMS, asking
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.sessions.vouchers import Voucher, voucher_payload
from gpu_tasks.provider.journal.schema import JOURNAL_FILE, JournalError, open_journal
from gpu_tasks.provider.sessions import served_session
from gpu_tasks.provider.sessions.served_session import WASTED_MAX, ServingLimits, verifier
from gpu_tasks.provider.sessions.session_store import SessionStore
from gpu_tasks.sessions.messages import (
    UNPAID_TOKENS_MAX,
    Ask,
    CustomerMessage,
    Cut,
    Pay,
    PeriodOver,
    ProviderMessage,
    SessionEntered,
    SessionRefused,
)
from runtime.blocks.extrinsic import MULTI_SIGNATURE, MultiSignature
from runtime.cryptography.signatures import Scheme
from session_streams import EchoGenerator, FakeCustomer, FakeStream, served
from wallet.keypair import Keypair

QUESTION = bytes(range(200))
SLOW = ServingLimits(entering=30.0, paying=30.0)


def code_at_end(stream: FakeStream) -> str:
    """Return the code with which the provider ended a stream."""
    assert stream.ended is not None
    exit_code, problem = stream.ended
    assert exit_code == bool(problem)
    return problem.partition(":")[0]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    """Yield a new store."""
    with open_journal(tmp_path / JOURNAL_FILE, is_sole=True) as database:
        yield SessionStore(database)


async def test_a_request_is_answered_and_its_vouchers_are_kept(store: SessionStore) -> None:
    """The disk has the newest voucher and all tokens that it pays for."""
    session, customer = served(store), FakeCustomer()
    serving = await customer.enter(session)
    customer.ask(QUESTION)
    await customer.finish()
    customer.hang_up()
    await serving
    assert bytes(customer.received) == QUESTION
    kept = session.kept
    assert kept is not None
    assert kept.voucher == customer.vouchers[-1]
    assert store.transcript(TERMS.genesis, kept, customer.end._form).exchanges[0].tokens == list(QUESTION)
    assert customer.stream.ended == (0, "")


async def test_at_most_sixty_four_tokens_are_sent_unpaid_and_the_lane_waits(store: SessionStore) -> None:
    """Then the stream of a customer that pays nothing ends, and its lane is free."""
    generator, customer = EchoGenerator(), FakeCustomer()
    serving = await customer.enter(served(store, generator))
    customer.ask(QUESTION)
    while await customer.step(pays=False):
        pass
    await serving
    assert len(customer.received) == UNPAID_TOKENS_MAX
    assert generator.drawn <= UNPAID_TOKENS_MAX + generator.step
    assert generator.lanes == 0
    assert code_at_end(customer.stream) == "silent"


async def test_a_voucher_after_a_break_pays_for_tokens_that_had_arrived(store: SessionStore) -> None:
    """A restarted provider has forgotten them."""
    for is_restarted, paid in ((False, UNPAID_TOKENS_MAX), (True, 0)):
        session, customer = served(store), FakeCustomer()
        customer.end.period = session.period
        customer.end.resume([])
        serving = await customer.enter(session)
        customer.ask(QUESTION)
        while len(customer.received) < UNPAID_TOKENS_MAX:
            await customer.step(pays=False)
        customer.hang_up()
        await serving
        again = await customer.enter(served(store) if is_restarted else session)
        customer.hang_up()
        await again
        assert [kept.voucher.totals.tokens_out for kept in store.periods(SESSION)][-1] == paid
        session.close_period()


async def test_a_cut_frees_the_lane_and_the_next_request_is_answered(store: SessionStore) -> None:
    """The answer is paid as far as it came."""
    generator, customer = EchoGenerator(), FakeCustomer()
    serving = await customer.enter(served(store, generator, limits=SLOW))
    customer.ask(QUESTION)
    for _ in range(4):
        await customer.step()
    customer.send(Cut())
    await customer.finish()
    first = len(customer.received)
    assert first <= UNPAID_TOKENS_MAX + 21
    assert generator.lanes == 0
    customer.ask(QUESTION[:40])
    await customer.finish()
    assert bytes(customer.received) == QUESTION[:first] + QUESTION[:40]
    customer.hang_up()
    await serving


async def test_a_newer_stream_replaces_the_older_one(store: SessionStore) -> None:
    """The older answer stops, and the customer goes on from the newest voucher."""
    generator, customer = EchoGenerator(), FakeCustomer()
    session = served(store, generator, limits=SLOW)
    older = await customer.enter(session)
    customer.ask(QUESTION)
    for _ in range(5):
        await customer.step()
    old_stream = customer.stream
    newer = customer.connect(session)
    await older
    assert code_at_end(old_stream) == "replaced"
    await customer.step()
    assert generator.lanes == 0
    place = customer.end.transcript.place.tokens
    del customer.received[place:]
    customer.ask(QUESTION[place:])
    await customer.finish()
    assert bytes(customer.received) == QUESTION
    customer.hang_up()
    await newer


async def test_a_generator_that_fails_ends_the_stream_with_its_code(store: SessionStore) -> None:
    """The customer comes back, and asks for the rest."""
    generator, customer = EchoGenerator(fails_after=70), FakeCustomer()
    session = served(store, generator, limits=SLOW)
    serving = await customer.enter(session)
    customer.ask(QUESTION)
    await customer.finish()
    await serving
    assert code_at_end(customer.stream) == "broken"
    assert generator.lanes == 0
    assert len(customer.received) == 70


async def test_a_store_that_fails_ends_the_stream_before_the_answer_begins(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A voucher that is not on the disk allows nothing."""
    generator, customer = EchoGenerator(), FakeCustomer()

    def fail(*_: object) -> None:
        raise JournalError("the disk is full", code="journal_unwritable")

    monkeypatch.setattr(store, "keep", fail)
    serving = await customer.enter(served(store, generator))
    customer.ask(QUESTION)
    await serving
    assert code_at_end(customer.stream) == "journal_unwritable"
    assert generator.begun == 0


@pytest.mark.parametrize(
    ("signed", "signs"),
    [
        (lambda voucher: voucher, True),
        (lambda voucher: replace(voucher, session=bytes(32)), False),
        (lambda voucher: replace(voucher, period=1), False),
        (lambda voucher: replace(voucher, totals=replace(voucher.totals, tokens_out=2)), False),
    ],
)
def test_the_real_check_takes_the_signer_s_signature_of_the_same_voucher_alone(
    signed: Callable[[Voucher], Voucher], *, signs: bool
) -> None:
    """No scheme, chain or account in the place of another one either."""
    key = Keypair.from_seed(Scheme.ED25519, bytes([5]) * 32)
    voucher = Voucher(SESSION, 0, Totals(1, 1, 1, bytes(32)))
    signature = key.sign(voucher_payload(TERMS.genesis, signed(voucher)))
    encoded = MULTI_SIGNATURE.encode(MultiSignature(key.scheme, signature))
    assert verifier(TERMS.genesis, key.account)(voucher, encoded) is signs
    assert not verifier(bytes(32), key.account)(voucher, encoded)
    assert not verifier(TERMS.genesis, bytes(32))(voucher, encoded)
    assert not verifier(TERMS.genesis, key.account)(voucher, b"\x01" + encoded[1:])
    assert not verifier(TERMS.genesis, key.account)(voucher, b"\xff" + encoded[1:])


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (Pay(Totals(1, 1, 1, bytes(32)), bytes(65)), "unknown_totals"),
        (Ask(asking(b"x"), Totals(1, 1, 0, bytes(32)), bytes(65)), "unknown_totals"),
    ],
)
async def test_a_wrong_voucher_ends_the_stream_with_its_code(
    store: SessionStore, message: CustomerMessage, code: str
) -> None:
    """The refusal arrives before the end."""
    customer = FakeCustomer()
    serving = await customer.enter(served(store))
    customer.send(message)
    assert isinstance(refused := await customer.next(), SessionRefused)
    assert refused.code == code
    assert await customer.next() is None
    await serving
    assert store.periods(SESSION) == []


async def test_a_request_that_no_session_can_answer_is_refused_unpaid(store: SessionStore) -> None:
    """The stream goes on."""
    customer = FakeCustomer()
    serving = await customer.enter(served(store))
    customer.send(Ask(asking(b""), Totals(1, 1, 0, bytes(32)), bytes(65)))
    assert isinstance(refused := await customer.next(), SessionRefused)
    assert refused.code == "bad_request"
    assert store.periods(SESSION) == []
    customer.ask(QUESTION)
    await customer.finish()
    assert bytes(customer.received) == QUESTION
    customer.hang_up()
    await serving


async def _no_entry(_: FakeCustomer, stream: FakeStream) -> None:
    """Send nothing."""


async def _half_a_message(customer: FakeCustomer, stream: FakeStream) -> None:
    customer.send(customer.end.hello())
    stream.incoming.put_nowait(b"\x09\0\0")


async def _malformed(_: FakeCustomer, stream: FakeStream) -> None:
    stream.incoming.put_nowait(b"\x01\0\0\0\xff")


async def _too_long(_: FakeCustomer, stream: FakeStream) -> None:
    stream.incoming.put_nowait(b"\xff\xff\xff\x7f")


async def _useless(customer: FakeCustomer, _: FakeStream) -> None:
    customer.send(customer.end.hello())
    for _each in range(WASTED_MAX + 1):
        customer.send(Cut())


async def _useless_requests(customer: FakeCustomer, _: FakeStream) -> None:
    customer.send(customer.end.hello())
    for _each in range(WASTED_MAX + 1):
        customer.send(Ask(asking(b""), Totals(1, 1, 0, bytes(32)), bytes(65)))


@pytest.mark.parametrize(
    ("hostile", "code"),
    [
        (_no_entry, "no_entry"),
        (_half_a_message, "silent"),
        (_malformed, "malformed_message"),
        (_too_long, "malformed_message"),
        (_useless, "too_many_refusals"),
        (_useless_requests, "too_many_refusals"),
    ],
)
async def test_a_hostile_stream_ends_soon(
    store: SessionStore, hostile: Callable[[FakeCustomer, FakeStream], Awaitable[None]], code: str
) -> None:
    """Each within its limit."""
    customer, session = FakeCustomer(), served(store)
    stream = customer.stream
    serving = asyncio.create_task(session.serve(stream))
    await hostile(customer, stream)
    await asyncio.wait_for(serving, 5)
    assert code_at_end(stream) == code
    assert not session.is_streaming


async def test_the_stream_of_a_customer_that_does_not_read_ends(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages that wait for it have a limit."""
    monkeypatch.setattr(served_session, "OUTGOING_MAX", 3)
    monkeypatch.setattr(served_session, "FLUSH_SECONDS", 0.1)
    customer = FakeCustomer()
    serving = await customer.enter(served(store, EchoGenerator(step=1), limits=SLOW), window=1)
    customer.ask(QUESTION)
    await asyncio.wait_for(serving, 5)
    assert code_at_end(customer.stream) == "not_reading"


async def test_a_period_ends_between_two_requests_without_a_break(store: SessionStore) -> None:
    """The customer enters the next one on the same stream."""
    session, customer = served(store, limits=SLOW), FakeCustomer()
    assert not session.end_period(), "nothing is paid yet"
    serving = await customer.enter(session)
    customer.ask(QUESTION)
    while len(customer.received) < 50:
        await customer.step()
    assert not session.end_period(), "an answer is open"
    await customer.finish()
    assert customer.end.take(message := await _next(customer)).tokens == ()
    assert message == PeriodOver(0)
    assert [(kept.voucher.period, kept.is_closed) for kept in store.periods(SESSION)] == [(0, True)]
    customer.send(customer.end.hello())
    assert await customer.step()
    customer.ask(QUESTION[:9])
    await customer.finish()
    await asyncio.sleep(0.01)
    assert session.end_period()
    assert [(kept.voucher.period, kept.is_closed) for kept in store.periods(SESSION)] == [(0, True), (1, True)]
    customer.hang_up()
    await serving


async def _next(customer: FakeCustomer) -> ProviderMessage:
    message = await customer.next()
    assert message is not None
    return message


async def test_a_request_that_crosses_the_end_of_a_period_is_ignored(store: SessionStore) -> None:
    """The customer learns it from the end of the period, and asks again."""
    session, customer = served(store, limits=SLOW), FakeCustomer()
    serving = await customer.enter(session)
    customer.ask(QUESTION)
    await customer.finish()
    while session.kept is None or session.kept.voucher != customer.vouchers[-1]:
        await asyncio.sleep(0)
    assert session.end_period()
    assert await customer.refusal_of(QUESTION[:9]) == "period_over"
    customer.send(customer.end.hello())
    await customer.step()
    customer.ask(QUESTION[:9])
    await customer.finish()
    assert bytes(customer.received) == QUESTION + QUESTION[:9]
    assert customer.vouchers[-1].period == 1
    customer.hang_up()
    await serving


async def test_a_period_without_room_for_a_request_ends_before_it(store: SessionStore) -> None:
    """The next period has the whole limit again."""
    price = TERMS.amount(Totals(1, 200, 200, bytes(32)))
    session, customer = served(store, amount_max=lambda _: price + 1, limits=SLOW), FakeCustomer()
    serving = await customer.enter(session)
    customer.ask(QUESTION)
    await customer.finish()
    assert await customer.refusal_of(QUESTION) == "period_over"
    customer.send(customer.end.hello())
    await customer.step()
    customer.ask(QUESTION)
    await customer.finish()
    assert bytes(customer.received) == QUESTION * 2
    customer.hang_up()
    await serving


async def test_a_deposit_that_is_spent_ends_no_period(store: SessionStore) -> None:
    """A new period would have no more room."""
    price = TERMS.amount(Totals(1, 200, 200, bytes(32)))
    session, customer = served(store, amount_max=lambda used: price + 1 - used, limits=SLOW), FakeCustomer()
    serving = await customer.enter(session)
    customer.ask(QUESTION)
    await customer.finish()
    assert await customer.refusal_of(QUESTION) == "deposit_spent"
    customer.hang_up()
    await serving


async def test_an_urgent_end_breaks_an_open_answer(store: SessionStore) -> None:
    """The period has what was paid, and a voucher that comes later is not taken."""
    generator = EchoGenerator()
    session, customer = served(store, generator, limits=SLOW), FakeCustomer()
    serving = await customer.enter(session)
    customer.ask(QUESTION)
    while len(customer.received) < 30:
        await customer.step()
    assert session.end_period(is_urgent=True)
    await serving
    assert generator.lanes == 0
    [kept] = store.periods(SESSION)
    assert kept.is_closed
    assert kept.voucher in customer.vouchers
    again = FakeCustomer()
    serving = again.connect(session)
    assert await again.next() == SessionEntered(1, None)
    again.hang_up()
    await serving


async def test_a_session_that_is_over_takes_no_stream(store: SessionStore) -> None:
    """Its period is closed."""
    session, customer = served(store, limits=SLOW), FakeCustomer()
    serving = await customer.enter(session)
    customer.ask(QUESTION)
    await customer.finish()
    session.leave()
    await serving
    again = FakeCustomer()
    await again.connect(session)
    assert code_at_end(again.stream) == "session_over"
    assert [kept.is_closed for kept in store.periods(SESSION)] == [True]


async def test_a_restarted_daemon_goes_on_from_its_disk(tmp_path: Path) -> None:
    """The customer asks for the rest."""
    customer, place = FakeCustomer(), 0
    for _ in range(5):
        database = open_journal(tmp_path / JOURNAL_FILE, is_sole=True)
        store = SessionStore(database)
        serving = await customer.enter(served(store, limits=SLOW))
        place += customer.end.transcript.place.tokens if customer.end.transcript.exchanges else 0
        del customer.received[place:]
        customer.ask(QUESTION[place:])
        while len(customer.received) < place + 30:
            await customer.step()
        serving.cancel()
        await asyncio.wait({serving})
        database.close()
    assert bytes(customer.received) == QUESTION[: len(customer.received)]
    assert len(customer.received) > 90


@pytest.mark.parametrize("ends_periods", [False, True])
async def test_losses_count_over_streams_and_periods(store: SessionStore, *, ends_periods: bool) -> None:
    """A customer that takes 64 tokens, leaves, and comes back for the next ones is refused at the third time."""
    session, customer = served(store, limits=SLOW), FakeCustomer()
    for _ in range(2):
        serving = customer.connect(session)
        await customer.step(pays=False)
        # It says that no token of the former answer arrived.
        customer.end.transcript.cut_to(customer.end._paid)
        customer.ask(bytes(200))
        begun = len(customer.received)
        while len(customer.received) < begun + UNPAID_TOKENS_MAX:
            await customer.step(pays=False)
        customer.hang_up()
        await serving
        if ends_periods:
            assert session.end_period()
            customer.end._next_period()
    serving = customer.connect(session)
    await customer.step(pays=False)
    customer.end.transcript.cut_to(customer.end._paid)
    assert await customer.refusal_of(bytes(200)) == "unpaid"
    customer.hang_up()
    await serving
