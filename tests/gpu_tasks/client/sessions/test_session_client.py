"""Answers over lines that break at every message: whole, once, and paid once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echoing_provider import EchoingProvider, answered, client_of
from echoing_session import SESSION, asking
from gpu_tasks.client.sessions import session_client
from gpu_tasks.client.sessions.session_client import NextProvider, ProviderGoneError
from gpu_tasks.client.sessions.session_store import SessionFile
from gpu_tasks.sessions.messages import ProviderMessage, SessionEntered, SessionRefused, Tokens
from gpu_tasks.sessions.provider_end import SessionRefusal

QUESTION = bytes(range(100))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait little between attempts."""
    monkeypatch.setattr(session_client, "BACKOFF_SECONDS", (0.0,))


async def test_an_answer_is_whole_and_paid_to_the_token(tmp_path: Path) -> None:
    provider = EchoingProvider()
    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider)
        assert await answered(client, asking(QUESTION)) == QUESTION
        assert await answered(client, asking(QUESTION[:3])) == QUESTION[:3]
        await asyncio.sleep(0.01)  # the last voucher arrives
        totals = provider.kept[-1].voucher.totals
        assert (totals.requests, totals.tokens_in, totals.tokens_out) == (2, 103, 103)
        assert client.spent == client.terms.amount(totals)
        assert [turn.is_over for turn in store.turns] == [True, True]
        await client.close()
    assert provider.entries == 1


@pytest.mark.parametrize("messages", range(40))
async def test_a_line_that_breaks_at_any_message(tmp_path: Path, messages: int) -> None:
    provider = EchoingProvider([messages])
    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider)
        assert await answered(client, asking(QUESTION)) == QUESTION
        assert await answered(client, asking(QUESTION[:9])) == QUESTION[:9]
        await client.close()
    assert provider.kept[-1].voucher.totals.tokens_out <= len(QUESTION) + 9


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(4, 40), max_size=12), st.lists(st.integers(1, 120), min_size=1, max_size=3), st.data())
def test_any_breaks_cuts_and_periods(breaks: list[int], lengths: list[int], data: st.DataObject) -> None:
    """Each answer is a beginning of its request, and the whole of it unless it was cut. Vouchers only grow."""

    async def converse(folder: Path) -> None:
        provider = EchoingProvider(breaks, step=data.draw(st.integers(1, 64)))
        with SessionFile(folder, SESSION) as store:
            client = client_of(store, provider)
            for length in lengths:
                cut_at = data.draw(st.integers(1, 200))
                received = b""
                async for arrived in client.ask(asking(QUESTION[:length])):
                    received += bytes(arrived.tokens)
                    if len(received) >= cut_at:
                        await client.cut()
                assert QUESTION[:length].startswith(received)
                assert received == QUESTION[:length] or len(received) >= cut_at
                assert bytes(store.turns[-1].tokens) == received
                if data.draw(st.booleans()) and provider.end.is_settled:
                    provider.next_period()
            await client.close()
        paid: dict[int, int] = {}
        for keep in provider.kept:
            amount = client.terms.amount(keep.voucher.totals)
            assert amount > paid.get(keep.voucher.period, 0)
            paid[keep.voucher.period] = amount

    import tempfile  # noqa: PLC0415  # hypothesis shares a fixture's folder between examples

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(converse(Path(folder)))


async def test_a_consumer_that_leaves_amid_an_answer_goes_on_later(tmp_path: Path) -> None:
    provider = EchoingProvider()
    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider)
        async with aclosing(client.ask(asking(QUESTION))) as parts:
            first = bytes((await anext(parts)).tokens)
        rest = b"".join([bytes(arrived.tokens) async for arrived in client.go_on()])
        assert first + rest == QUESTION
        await client.close()


async def test_another_process_goes_on_from_the_disk(tmp_path: Path) -> None:
    """Its first line tells it how far the provider's vouchers go."""
    provider = EchoingProvider([12])
    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider)
        received = b""
        async with aclosing(client.ask(asking(QUESTION))) as parts:
            while len(received) < 30:
                received += bytes((await anext(parts)).tokens)
    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider)
        kept = bytes(store.turns[-1].tokens)
        assert received.startswith(kept)
        assert not store.turns[-1].is_over
        rest = b"".join([bytes(arrived.tokens) async for arrived in client.go_on()])
        assert kept + rest == QUESTION
        await client.close()


async def test_a_period_that_crosses_a_request(tmp_path: Path) -> None:
    """The provider announces the end of the period, and the customer has not read it when it asks."""
    provider = EchoingProvider()
    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider)
        assert await answered(client, asking(QUESTION)) == QUESTION
        provider.next_period()
        assert await answered(client, asking(QUESTION)) == QUESTION
        assert provider.kept[-1].voucher.period == 1
        assert len(store.vouchers()) == 2
        await client.close()


async def test_the_spare_goes_on_with_the_rest_of_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_client, "GONE_SECONDS", 0.0)
    provider, spare = EchoingProvider(), EchoingProvider()
    spare.end = EchoingProvider().end.__class__(
        spare.end.terms,
        1,
        spare.end._form,
        spare.end._verify,
        spare.amount_max,
    )
    reasons: list[tuple[int, str]] = []

    async def hand_over(leg: int, reason: str) -> NextProvider | None:
        reasons.append((leg, reason))
        return NextProvider(1, 1, spare.dial)

    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider, hand_over)
        received = b""
        async for arrived in client.ask(asking(QUESTION)):
            received += bytes(arrived.tokens)
            if provider.is_reachable and len(received) > 40:
                provider.is_reachable = False
                provider.lines[-1].break_off()
        assert received == QUESTION
        assert [leg for leg, _ in reasons] == [0]
        leg = store.leg()
        assert leg is not None
        assert (leg.number, leg.first_period) == (1, 1)
        assert {keep.voucher.period for keep in spare.kept} == {1}
        paid = sum(each.kept[-1].voucher.totals.tokens_out for each in (provider, spare))
        assert len(QUESTION) - 64 <= paid <= len(QUESTION)
        await client.close()


async def test_a_provider_that_breaks_off_after_64_tokens_is_not_paid_for_the_prompt_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prompts are worth 127 and 95 tokens of an answer, so 64 tokens do not begin the count anew."""
    monkeypatch.setattr(session_client, "TRIES_MAX", 2)
    hello, asking_and_paying, parts_of_64_tokens = 2, 5, 8
    provider = EchoingProvider([hello + asking_and_paying + parts_of_64_tokens] * 2, step=8)
    reasons: list[str] = []

    async def hand_over(_: int, reason: str) -> NextProvider | None:
        reasons.append(reason)
        return None

    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider, hand_over)
        with pytest.raises(ProviderGoneError):
            await answered(client, asking(bytes(255)))
        assert len(store.turns[-1].tokens) >= 2 * 64
        assert reasons == ["it broke off 2 times"]
        await client.close()


async def test_a_provider_that_is_gone_leaves_the_question_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_client, "GONE_SECONDS", 0.0)
    provider = EchoingProvider()
    provider.is_reachable = False
    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider)
        with pytest.raises(ProviderGoneError) as gone:
            await answered(client, asking(QUESTION))
        assert gone.value.code == "provider_gone"
        provider.is_reachable = True
        assert b"".join([bytes(arrived.tokens) async for arrived in client.go_on()]) == QUESTION
        await client.close()


@pytest.mark.parametrize(
    ("amount_max", "request_", "code"),
    [(10, asking(QUESTION), "deposit_spent"), (10**9, b"\0abc", "bad_request")],
)
async def test_a_refused_request_leaves_no_turn(tmp_path: Path, amount_max: int, request_: bytes, code: str) -> None:
    provider = EchoingProvider(amount_max=amount_max)
    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider)
        with pytest.raises(SessionRefusal) as refused:
            await answered(client, request_)
        assert refused.value.code == code
        assert store.turns == []
        provider.end.amount_max = 10**9
        assert await answered(client, asking(QUESTION)) == QUESTION
        await client.close()


FAULTS = {
    "unknown totals": lambda message: [SessionEntered(5, None)] if isinstance(message, SessionEntered) else [message],
    "an early end": lambda message: [Tokens((), is_last=True)] if isinstance(message, Tokens) else [message],
    "a refusal without a reason": lambda message: (
        [SessionRefused("unpaid", "")] if isinstance(message, Tokens) else [message]
    ),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_provider_that_breaks_the_protocol_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: object
) -> None:
    """It gets vouchers for prompts of few requests, and none for tokens that it did not send."""
    monkeypatch.setattr(session_client, "GONE_SECONDS", 0.0)
    provider = EchoingProvider()
    provider.answer = fault  # type: ignore[assignment]
    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider)
        with pytest.raises(ProviderGoneError):
            await answered(client, asking(QUESTION))
        assert store.turns[-1].tokens == []
        assert all(voucher.totals.tokens_out == 0 for voucher, _ in store.vouchers())
        assert sum(voucher.totals.requests for voucher, _ in store.vouchers()) <= session_client.TRIES_MAX
        await client.close()


async def test_a_refusal_of_the_entry_reaches_the_caller(tmp_path: Path) -> None:
    provider = EchoingProvider()
    provider.answer = lambda _: [SessionRefused("other_secret", "no")]
    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider)
        with pytest.raises(SessionRefusal) as refused:
            await client.enter()
        assert refused.value.code == "other_secret"


async def test_a_silent_provider_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_client, "SILENCE_SECONDS", 0.01)
    provider = EchoingProvider()

    def once(message: ProviderMessage) -> list[ProviderMessage]:
        return [] if isinstance(message, Tokens) and provider.entries == 1 else [message]

    provider.answer = once
    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider)
        assert await answered(client, asking(QUESTION)) == QUESTION
        await client.close()


async def test_a_provider_that_ignores_a_cut_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_client, "ENTER_SECONDS", 0.05)
    provider = EchoingProvider(step=1)
    provider.answer = lambda message: [Tokens(message.tokens, False)] if isinstance(message, Tokens) else [message]
    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider)
        parts: AsyncIterator[object] = client.ask(asking(QUESTION))
        await anext(parts)
        await client.cut()
        async with asyncio.timeout(5):
            async for _ in parts:
                pass
        assert store.turns[-1].is_over
        await client.close()


async def test_a_cut_ends_the_wait_for_a_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_client, "BACKOFF_SECONDS", (0.0, 100.0))
    provider = EchoingProvider()
    provider.is_reachable = False
    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider)
        asking_task = asyncio.create_task(answered(client, asking(QUESTION)))
        await asyncio.sleep(0.05)
        await client.cut()
        assert await asyncio.wait_for(asking_task, 5) == b""
        assert store.turns[-1].is_over


class OverError(Exception):
    """The session is over on the chain."""


async def _over() -> None:
    raise OverError


async def test_a_session_that_is_over_ends_the_attempts_at_once(tmp_path: Path) -> None:
    """Without waiting until the provider counts as gone."""
    provider = EchoingProvider()
    provider.is_reachable = False
    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider)
        client.require_open = _over
        with pytest.raises(OverError):
            await asyncio.wait_for(answered(client, asking(QUESTION)), 5)


async def test_the_end_of_a_session_is_noticed_between_two_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chain may show it later than the provider."""
    monkeypatch.setattr(session_client, "BACKOFF_SECONDS", (0.0, 0.01))
    provider, asked = EchoingProvider(), 0

    async def over_at_the_third() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise OverError

    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider)
        client.require_open = over_at_the_third
        assert await answered(client, asking(QUESTION)) == QUESTION
        watching = asyncio.create_task(client.until_over())
        await asyncio.sleep(0.02)
        assert asked == 0
        provider.lines[-1].break_off()
        with pytest.raises(OverError):
            await asyncio.wait_for(watching, 5)
        await client.close()


@pytest.mark.parametrize("is_reachable", [True, False])
async def test_a_long_wait_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_reachable: bool) -> None:
    monkeypatch.setattr(session_client, "WAIT_TOLD_SECONDS", 0.0)
    monkeypatch.setattr(session_client, "SILENCE_SECONDS", 0.1)
    monkeypatch.setattr(session_client, "GONE_SECONDS", 0.0)
    provider, reasons = EchoingProvider(), list[str]()
    provider.answer = lambda message: [] if isinstance(message, Tokens) else [message]
    with SessionFile(tmp_path, SESSION) as store:
        client = client_of(store, provider)
        client.on_wait = reasons.append
        await client.enter()
        reasons.clear()
        if not is_reachable:
            provider.is_reachable = False
            provider.lines[-1].break_off()
            await asyncio.sleep(0.01)
        with pytest.raises(ProviderGoneError):
            await answered(client, asking(QUESTION))
        assert reasons[0] == (session_client.WAITS_FOR_ANSWER if is_reachable else session_client.WAITS_FOR_ENTRY)
