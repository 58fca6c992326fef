"""Customers of sessions on a devnet: openings in one transaction, streams through real tunnels, and hostile messages.

Invariant: honest customers use the production client over the production tunnel. A hostile one uses the same tunnel
and the same customer's end, and sends other messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from devnet.launcher.folder import DevnetError
from gpu_tasks.client.sessions.session_client import NextProvider, ProviderLine, SessionClient
from gpu_tasks.client.sessions.session_line import SessionLines
from gpu_tasks.client.sessions.session_store import SessionFile
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.sessions.events import SessionOpened
from gpu_tasks.market.sessions.records import SessionRecord, SessionState
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.vouchers import SECRET_BYTES, Voucher, voucher_payload
from gpu_tasks.sessions.customer_end import CustomerEnd
from gpu_tasks.sessions.messages import (
    CUSTOMER_MESSAGE,
    PROVIDER_MESSAGE,
    Ask,
    CustomerMessage,
    MessageReader,
    Pay,
    ProviderMessage,
    framed,
)
from gpu_tasks.sessions.provider_end import SessionTerms
from gpu_tasks.workloads.form import WorkloadForm
from runtime.blocks.extrinsic import MULTI_SIGNATURE, MultiSignature
from runtime.pallets.utility import Utility
from wallet.client import ChainClient
from wallet.keypair import Keypair

SECRET = bytes(range(SECRET_BYTES))
DRAW_SECONDS, ENTRANCE_SECONDS, POLL_SECONDS = 120.0, 90.0, 1.0


@dataclass(frozen=True, slots=True)
class SessionOffer:
    """The terms of an opening."""

    service: int
    deposit: int
    term: int
    rate: int


async def open_sessions(chain: ChainClient, key: Keypair, offers: Sequence[SessionOffer]) -> list[bytes]:
    """Open sessions in one transaction, signed and paid by one key. Return their ids."""
    calls = tuple(
        Sessions.open(
            service=offer.service, deposit=offer.deposit, term=offer.term, rate=offer.rate, signer=key.account,
            customer_key=SealKey.of(key).public,
        )
        for offer in offers
    )  # fmt: skip
    outcome = await chain.submit(Utility.batch_all(calls=calls), key)
    ids = [event.session for event in outcome.events if isinstance(event, SessionOpened)]
    if len(ids) != len(offers):
        raise DevnetError(f"{len(ids)} of {len(offers)} sessions were opened: {outcome.error}")
    return ids


async def seats_of(chain: ChainClient, ids: Sequence[bytes]) -> dict[bytes, SessionRecord]:
    """Wait for the draws of sessions. Return the records of those with a provider."""
    async with asyncio.timeout(DRAW_SECONDS):
        while True:
            records = await chain.read_many(Sessions.sessions, ids, at=await chain.finalized())
            found = dict(zip(ids, records, strict=True))
            if all(record is None or record.state is not SessionState.WAITING for record in found.values()):
                return {each: record for each, record in found.items() if record is not None}
            await asyncio.sleep(POLL_SECONDS)


def signed_by(key: Keypair, genesis: bytes, voucher: Voucher) -> bytes:
    """Return the signature of a voucher."""
    signature = key.sign(voucher_payload(genesis, voucher))
    encoded: bytes = MULTI_SIGNATURE.encode(MultiSignature(key.scheme, signature))
    return encoded


@dataclass(frozen=True, slots=True)
class SessionSeat:
    """A session of a customer, with its present provider."""

    url: str
    genesis: bytes
    id: bytes
    record: SessionRecord
    key: Keypair
    form: WorkloadForm

    @property
    def terms(self) -> SessionTerms:
        """The terms of its streams."""
        return SessionTerms(self.genesis, self.id, self.record.rate, self.record.input_share)

    @property
    def provider(self) -> NextProvider:
        """The provider of its newest leg."""
        leg = self.record.legs[-1]
        lines = SessionLines(
            self.id, leg.owner, SealKey.of(self.key), lambda: ChainClient.connect(self.url), self.genesis
        )
        return NextProvider(len(self.record.legs) - 1, leg.first_period, lines.dial)

    async def wait(self) -> None:
        """Wait until the provider has seen the session, and lets its customer in."""
        async with asyncio.timeout(ENTRANCE_SECONDS):
            while True:
                try:
                    async with self.provider.dial(0):
                        return
                except ConnectionError:
                    await asyncio.sleep(POLL_SECONDS)

    @asynccontextmanager
    async def client(self, folder: Path, signed: list[Voucher]) -> AsyncIterator[SessionClient]:
        """Open the production client with its file in a folder. Its vouchers are added to `signed`."""

        def sign(voucher: Voucher) -> bytes:
            signed.append(voucher)
            return signed_by(self.key, self.genesis, voucher)

        with SessionFile(folder, self.id) as store:
            client = SessionClient(self.terms, self.form, store, sign, self.provider, _nobody)
            try:
                yield client
            finally:
                await client.close()

    @asynccontextmanager
    async def raw(self) -> AsyncIterator[RawCustomer]:
        """Open a stream for messages of any kind."""
        async with self.provider.dial(0) as line:
            yield RawCustomer(self, line)


async def _nobody(leg: int, reason: str) -> None:
    """Hand the session over to nobody."""


class RawCustomer:
    """A customer that keeps to no rule of the protocol. Its methods raise ConnectionError at the end of the stream."""

    def __init__(self, seat: SessionSeat, line: ProviderLine) -> None:
        """Take an open line."""
        self.seat = seat
        self.end = CustomerEnd(seat.terms, seat.form, SECRET)
        self.promised: Voucher | None = None
        """The newest voucher that the provider can claim."""
        self.tokens = 0
        """The tokens that arrived."""
        self._line, self._reader, self._messages = line, MessageReader(), list[bytes]()

    def sign(self, voucher: Voucher) -> bytes:
        """Return the signature of the session's signer."""
        return signed_by(self.seat.key, self.seat.genesis, voucher)

    async def send(self, message: CustomerMessage) -> None:
        """Send a message."""
        await self.send_bytes(framed(CUSTOMER_MESSAGE.encode(message)))

    async def send_bytes(self, data: bytes) -> None:
        """Send bytes."""
        await self._line.send(data)

    async def next(self) -> ProviderMessage:
        """Return the next message, which this end has taken. Raise SessionRefusal as `CustomerEnd`."""
        while not self._messages:
            self._messages += self._reader.take(await self._line.receive())
        message: ProviderMessage = PROVIDER_MESSAGE.decode(self._messages.pop(0))
        arrived = self.end.take(message)
        self.tokens += len(arrived.tokens)
        return message

    async def enter(self) -> None:
        """Enter the session."""
        await self.send(self.end.hello())
        await self.next()

    async def ask(self, request: bytes) -> None:
        """Send a request with the voucher of its prompt."""
        voucher = self.end.ask(request)
        await self.send(Ask(request, voucher.totals, self._kept(voucher)))

    async def read(self, tokens: int) -> None:
        """Read until so many tokens have arrived, or the answer has ended."""
        while self.tokens < tokens and self.end.transcript.is_answering:
            await self.next()

    async def pay(self) -> Voucher:
        """Pay for all tokens so far. Return the voucher."""
        voucher = Voucher(self.seat.id, self.end.period, self.end.transcript.totals())
        await self.send(Pay(voucher.totals, self._kept(voucher)))
        return voucher

    async def read_to_end(self) -> None:
        """Read until the stream ends. Raise its reason as ConnectionError or SessionRefusal."""
        while True:
            await self.next()

    def _kept(self, voucher: Voucher) -> bytes:
        self.promised = voucher
        self.end.paid()
        return self.sign(voucher)
