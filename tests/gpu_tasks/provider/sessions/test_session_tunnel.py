"""Chats over a real tunnel: HTTP, the handshake, yamux, a served session, and a fake chain."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_tasks.client.tasks.tunnel import open_tunnel
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.provider.blobs.server import BlobServer
from gpu_tasks.provider.blobs.store import BlobStore, Quota
from gpu_tasks.provider.tunnel.tunnel_server import TunnelServer
from gpu_tasks.sessions.messages import CUSTOMER_MESSAGE, CustomerMessage, MessageReader, framed
from gpu_tasks.tunnel.frames import Converse
from gpu_tasks.tunnel.tunnel import TunnelError, TunnelStream
from played_sessions import CUSTOMER, GENESIS, STASH, PlayedProvider, signed_by_customer, terms_of
from runtime.cryptography.signatures import Scheme
from session_streams import FakeCustomer
from wallet.keypair import Keypair

SESSION = bytes([31]) * 32
QUESTION = bytes(range(200))


class TunnelledCustomer(FakeCustomer):
    """A customer over a real stream."""

    def __init__(self, stream: TunnelStream) -> None:
        """Take an open stream."""
        super().__init__(0, terms_of(SESSION), signed_by_customer)
        self.attach(stream)

    def attach(self, stream: TunnelStream) -> None:
        """Go on over another stream."""
        self.tunnelled = stream
        self._reader, self._messages = MessageReader(), []
        self._sending: asyncio.Queue[bytes] = asyncio.Queue()

    def send(self, message: CustomerMessage) -> None:
        """See `FakeCustomer`. `next` sends it."""
        self._sending.put_nowait(framed(CUSTOMER_MESSAGE.encode(message)))

    async def next(self) -> Any:
        """See `FakeCustomer`."""
        while not self._sending.empty():
            await self.tunnelled.write(self._sending.get_nowait())
        while not self._messages:
            received = await asyncio.wait_for(self.tunnelled.read(), 10)
            if received is None:
                return None
            self._messages += [self._decoded(body) for body in self._reader.take(received[1])]
        return self._messages.pop(0)


@dataclass
class Village:
    """A provider that listens, and the way in for customers."""

    played: PlayedProvider
    server: BlobServer

    @asynccontextmanager
    async def tunnel(self, key: Keypair = CUSTOMER) -> AsyncIterator[Any]:
        """Open a tunnel to the session."""
        provider: Any = SimpleNamespace(
            endpoint=f"http://127.0.0.1:{self.server.port}".encode(),
            seal_key=self.played.parts.identity.seal_key.public,
        )
        async with open_tunnel(GENESIS, SESSION, STASH, SealKey.of(key), provider, is_private=True) as opened:
            yield opened


@asynccontextmanager
async def village(tmp_path: Path) -> AsyncIterator[Village]:
    """Yield a provider with one open session."""
    played = PlayedProvider(tmp_path)
    identity = played.parts.identity
    server = BlobServer(
        BlobStore(tmp_path / "blobs", Quota()),
        tunnels=TunnelServer([played.duty], identity.seal_key, GENESIS, STASH),
    )
    await server.start(0, "127.0.0.1")
    try:
        played.chain.open(SESSION)
        await played.step(2)
        yield Village(played, server)
    finally:
        await server.close()
        await played.close()


async def test_a_chat_over_a_real_tunnel_is_answered_and_paid(tmp_path: Path) -> None:
    """Two questions on one stream."""
    async with village(tmp_path) as here, here.tunnel() as tunnel:
        customer = TunnelledCustomer(await tunnel.open(Converse(0)))
        customer.send(customer.end.hello())
        await customer.step()
        for _ in range(2):
            customer.ask(QUESTION)
            await customer.finish()
        await customer.tunnelled.end_input()
        await customer.tunnelled.end
        assert bytes(customer.received) == QUESTION * 2
        [kept] = here.played.store.periods(SESSION)
        assert kept.voucher.totals.tokens_out <= 400
        assert kept.voucher in customer.vouchers


async def test_a_chat_goes_on_in_another_tunnel_after_a_break(tmp_path: Path) -> None:
    """The answer is whole, once, and its lane was free meanwhile."""
    async with village(tmp_path) as here:
        async with here.tunnel() as tunnel:
            customer = TunnelledCustomer(await tunnel.open(Converse(0)))
            customer.send(customer.end.hello())
            await customer.step()
            customer.ask(QUESTION)
            while len(customer.received) < 100:
                await customer.step()
        async with here.tunnel() as tunnel:
            customer.attach(await tunnel.open(Converse(0)))
            customer.send(customer.end.hello())
            await customer.step()
            assert here.played.made[0].lanes == 0
            place = customer.end.transcript.place.tokens
            del customer.received[place:]
            customer.ask(QUESTION[place:])
            await customer.finish()
        assert bytes(customer.received) == QUESTION


async def test_a_stranger_does_not_enter_a_session(tmp_path: Path) -> None:
    """The handshake needs the customer's key."""
    async with village(tmp_path) as here:
        with pytest.raises(TunnelError):
            async with here.tunnel(Keypair.from_seed(Scheme.ED25519, bytes([8]) * 32)) as tunnel:
                stream = await tunnel.open(Converse(0))
                await stream.write(b"x")
                await stream.read()
                raise TunnelError((await stream.end).problem)
        assert here.played.store.periods(SESSION) == []
