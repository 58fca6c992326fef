"""A session's stream between a served session and a customer in the same process, over queues instead of a tunnel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from echoing_session import SECRET, TERMS, EchoForm, asking, is_signed, signature_of
from gpu_tasks.market.sessions.vouchers import Voucher
from gpu_tasks.provider.sessions.served_session import ServedSession, ServingLimits
from gpu_tasks.provider.sessions.session_store import SessionStore
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
from gpu_tasks.sessions.provider_end import SessionRefusal, SessionTerms
from wallet.errors import CodedError

QUICK = ServingLimits(entering=0.3, paying=0.3)


class FakeStreamEndedError(CodedError):
    """The stream has ended."""


class FakeStream:
    """The provider's end of a stream. `window` bounds the unread messages of the customer."""

    def __init__(self, window: int = 10_000) -> None:
        """Nothing was sent."""
        self.incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.outgoing: asyncio.Queue[bytes | None] = asyncio.Queue(window)
        self.ended: tuple[int, str] | None = None

    async def read(self) -> tuple[int, bytes] | None:
        """See `ConverseStream`."""
        data = await self.incoming.get()
        return None if data is None else (0, data)

    async def write(self, data: bytes) -> None:
        """See `ConverseStream`."""
        if self.ended is not None:
            raise FakeStreamEndedError("the stream has ended", code="stream_ended")
        await self.outgoing.put(data)

    async def finish(self, code: int = 0, problem: str = "") -> None:
        """See `ConverseStream`."""
        self.ended = self.ended or (code, problem)
        if not self.outgoing.full():
            self.outgoing.put_nowait(None)


class Piece(NamedTuple):
    """Tokens of a fake generator."""

    tokens: tuple[int, ...]
    finish: int | None


@dataclass
class EchoGenerator:
    """Answers as `EchoForm` does, a few tokens at a time. `lanes` counts its open answers."""

    step: int = 7
    fails_after: int | None = None
    lanes: int = 0
    begun: int = 0
    drawn: int = 0
    failure: Callable[[], Exception] = field(default=lambda: FakeStreamEndedError("broken", code="broken"))

    async def generate(self, request: bytes) -> AsyncGenerator[Piece, None]:
        """See `Generate`."""
        self.lanes += 1
        self.begun += 1
        try:
            answer = request[1 : 1 + request[0]]
            for place in range(0, len(answer), self.step):
                await asyncio.sleep(0)
                if self.fails_after is not None and place >= self.fails_after:
                    raise self.failure()
                part = tuple(answer[place : place + self.step])
                self.drawn += len(part)
                yield Piece(part, 0 if place + self.step >= len(answer) else None)
        finally:
            self.lanes -= 1


def served(
    store: SessionStore,
    generator: EchoGenerator | None = None,
    amount_max: Callable[[int], int] = lambda _: 10**9,
    limits: ServingLimits = QUICK,
) -> ServedSession:
    """Return a served session of the echoing workload."""
    return ServedSession(
        TERMS, EchoForm(), is_signed, store, (generator or EchoGenerator()).generate, amount_max, limits=limits
    )


class Serving(Protocol):
    """Serves streams, as `ServedSession` does."""

    async def serve(self, stream: FakeStream) -> None:
        """Serve a stream to its end."""
        ...


class FakeCustomer:
    """A customer that keeps its end across streams. `vouchers` are those that it signed."""

    def __init__(
        self, period: int = 0, terms: SessionTerms = TERMS, sign: Callable[[Voucher], bytes] = signature_of
    ) -> None:
        """Nothing is connected."""
        self.end = CustomerEnd(terms, EchoForm(), SECRET, period)
        self._sign = sign
        self.vouchers: list[Voucher] = []
        self.received = bytearray()
        self.stream = FakeStream()
        self._reader, self._messages = MessageReader(), list[ProviderMessage]()

    def connect(self, session: Serving, window: int = 10_000) -> asyncio.Task[None]:
        """Begin a stream, and enter the session."""
        self.stream, self._reader, self._messages = FakeStream(window), MessageReader(), []
        task = asyncio.create_task(session.serve(self.stream))
        self.send(self.end.hello())
        return task

    async def enter(self, session: Serving, window: int = 10_000) -> asyncio.Task[None]:
        """Begin a stream, and wait until the provider has answered."""
        task = self.connect(session, window)
        await self.step()
        return task

    def send(self, message: CustomerMessage) -> None:
        """Send a message."""
        self.stream.incoming.put_nowait(framed(CUSTOMER_MESSAGE.encode(message)))

    def hang_up(self) -> None:
        """End the stream at this side."""
        self.stream.incoming.put_nowait(None)

    async def next(self) -> ProviderMessage | None:
        """Return the next message, or None at the end of the stream."""
        while not self._messages:
            data = await asyncio.wait_for(self.stream.outgoing.get(), 5)
            if data is None:
                return None
            self._messages += [self._decoded(body) for body in self._reader.take(data)]
        return self._messages.pop(0)

    def _decoded(self, body: bytes) -> ProviderMessage:
        message: ProviderMessage = PROVIDER_MESSAGE.decode(body)
        return message

    async def refusal_of(self, answer: bytes) -> str:
        """Ask for an answer that the provider refuses. Return the code."""
        self.ask(answer)
        try:
            await self.step()
        except SessionRefusal as refusal:
            return refusal.code
        raise AssertionError("the provider took the request")

    def ask(self, answer: bytes) -> None:
        """Ask for these tokens, and pay the prompt."""
        request = asking(answer)
        voucher = self.end.ask(request)
        self.vouchers.append(voucher)
        self.end.paid()
        self.send(Ask(request, voucher.totals, self._sign(voucher)))

    async def step(self, *, pays: bool = True) -> bool:
        """Take a message, and pay what is due. Return False at the end of the stream or of an answer."""
        message = await self.next()
        if message is None:
            return False
        arrived = self.end.take(message)
        self.received += bytes(arrived.tokens)
        voucher = self.end.due() if pays else None
        if voucher is not None:
            self.vouchers.append(voucher)
            self.end.paid()
            self.send(Pay(voucher.totals, self._sign(voucher)))
        return not arrived.is_last

    async def finish(self) -> None:
        """Take the answer to its end, or to that of the stream."""
        while await self.step():
            pass
