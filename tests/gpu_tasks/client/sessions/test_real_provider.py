"""The customer's program at a real provider: HTTP, the handshake, yamux and a served session, on a fake chain."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from echoing_session import EchoForm, asking
from gpu_tasks.client.sessions import session_client
from gpu_tasks.client.sessions.session_client import NextProvider, SessionClient
from gpu_tasks.client.sessions.session_line import SessionLines
from gpu_tasks.client.sessions.session_store import SessionFile
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.provider.blobs.server import BlobServer
from gpu_tasks.provider.blobs.store import BlobStore, Quota
from gpu_tasks.provider.sessions.session_duty import PERIOD_BLOCKS
from gpu_tasks.provider.tunnel.tunnel_server import TunnelServer
from gpu_tasks.sessions.messages import CustomerMessage, Pay
from played_sessions import CUSTOMER, GENESIS, STASH, PlayedProvider, signed_by_customer, terms_of

SESSION = bytes([31]) * 32
QUESTION = bytes(range(200))


@asynccontextmanager
async def provider(folder: Path) -> AsyncIterator[tuple[PlayedProvider, BlobServer]]:
    """Yield a provider with one open session, and its server."""
    played = PlayedProvider(folder)
    seal_key = played.parts.identity.seal_key
    server = BlobServer(
        BlobStore(folder / "blobs", Quota()), tunnels=TunnelServer([played.duty], seal_key, GENESIS, STASH)
    )
    await server.start(0, "127.0.0.1")
    try:
        played.chain.open(SESSION)
        await played.step(2)
        yield played, server
    finally:
        await server.close()
        await played.close()


def customer(store: SessionFile, played: PlayedProvider, server: BlobServer) -> SessionClient:
    """Return the customer's client, which has read the provider's record."""

    async def no_node() -> Any:
        raise ConnectionError("no node")

    async def no_other(leg: int, reason: str) -> None:
        """There is no spare."""

    record: Any = SimpleNamespace(
        endpoint=f"http://127.0.0.1:{server.port}".encode(), seal_key=played.parts.identity.seal_key.public
    )
    lines = SessionLines(SESSION, STASH, SealKey.of(CUSTOMER), no_node, GENESIS, record, True)
    next_provider = NextProvider(0, 0, lines.dial)
    return SessionClient(terms_of(SESSION), EchoForm(), store, signed_by_customer, next_provider, no_other)


async def whole(client: SessionClient, request: bytes) -> bytes:
    return bytes([token async for arrived in client.ask(request) for token in arrived.tokens])


async def test_questions_are_answered_and_paid(tmp_path: Path) -> None:
    async with provider(tmp_path / "p") as (played, server):
        with SessionFile(tmp_path / "c", SESSION) as store:
            client = customer(store, played, server)
            for _ in range(2):
                assert await whole(client, asking(QUESTION)) == QUESTION
            await client.close()
            signed = [voucher for voucher, _ in store.vouchers()]
        [kept] = played.store.periods(SESSION)
        assert kept.voucher == signed[-1]
        assert kept.voucher.totals.tokens_out == 2 * len(QUESTION)


async def test_an_answer_goes_on_in_another_process(tmp_path: Path) -> None:
    async with provider(tmp_path / "p") as (played, server):
        with SessionFile(tmp_path / "c", SESSION) as store:
            client = customer(store, played, server)
            count = 0
            async with aclosing(client.ask(asking(QUESTION))) as parts:
                while count < 100:
                    count += len((await anext(parts)).tokens)
            await client.close()
        with SessionFile(tmp_path / "c", SESSION) as store:
            client = customer(store, played, server)
            async for _ in client.go_on():
                pass
            assert bytes(store.turns[-1].tokens) == QUESTION
            await client.close()
        assert played.made[0].lanes == 0


async def test_a_period_ends_between_two_questions(tmp_path: Path) -> None:
    """The client enters the next period in the same stream."""
    async with provider(tmp_path / "p") as (played, server):
        with SessionFile(tmp_path / "c", SESSION) as store:
            client = customer(store, played, server)
            breaks: list[str] = []
            client.on_break = breaks.append
            assert await whole(client, asking(QUESTION)) == QUESTION
            await asyncio.sleep(0.1)  # the last voucher arrives
            await played.step()
            played.chain.height += PERIOD_BLOCKS
            await played.step(2)
            assert await whole(client, asking(QUESTION[:50])) == QUESTION[:50]
            assert [voucher.period for voucher, _ in store.vouchers()] == [0, 1]
            assert breaks == []
            await client.close()


async def test_a_voucher_that_a_kill_kept_back_is_sent_by_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process asks nothing."""
    send = session_client._Stream.send

    async def unpaid(stream: Any, message: CustomerMessage) -> None:
        if not isinstance(message, Pay):
            await send(stream, message)

    async with provider(tmp_path / "p") as (played, server):
        with SessionFile(tmp_path / "c", SESSION) as store, monkeypatch.context() as killed:
            killed.setattr(session_client._Stream, "send", unpaid)
            client = customer(store, played, server)
            async with aclosing(client.ask(asking(QUESTION))) as parts:
                while not store.turns or len(store.turns[-1].tokens) < 50:
                    await anext(parts)
            await client.close()
        await asyncio.sleep(0.1)  # the provider notes the end of the stream
        assert played.store.periods(SESSION)[0].voucher.totals.tokens_out == 0
        with SessionFile(tmp_path / "c", SESSION) as store:
            [(voucher, _)] = store.vouchers()
            client = customer(store, played, server)
            await client.settle()
            await client.close()
        await asyncio.sleep(0.1)  # the voucher arrives
        assert voucher.totals.tokens_out > 0
        assert played.store.periods(SESSION)[0].voucher == voucher


async def test_a_session_that_is_over_is_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_client, "GONE_SECONDS", 0.0)
    async with provider(tmp_path / "p") as (played, server):
        with SessionFile(tmp_path / "c", SESSION) as store:
            client = customer(store, played, server)
            assert await whole(client, asking(QUESTION)) == QUESTION
            played.chain.close(SESSION)
            await played.step(2)
            with pytest.raises(session_client.ProviderGoneError):
                await whole(client, asking(QUESTION))
            await client.close()
