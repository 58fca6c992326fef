"""A provider of the toy workload of `echoing_session` behind lines in memory that break, for tests of customers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from echoing_session import (
    AMOUNT_MAX,
    GENESIS,
    SESSION,
    TERMS,
    EchoForm,
    provider_end,
    signature_of,
)
from gpu_tasks.client.sessions.session_client import NextProvider, ProviderLine, SessionClient
from gpu_tasks.client.sessions.session_store import SessionFile
from gpu_tasks.market.sessions.vouchers import VOUCHER, session_claim_id
from gpu_tasks.sessions.messages import (
    CUSTOMER_MESSAGE,
    PROVIDER_MESSAGE,
    EnterSession,
    MessageReader,
    PeriodOver,
    ProviderMessage,
    framed,
)
from gpu_tasks.sessions.provider_end import (
    Begin,
    KeepVoucher,
    ProviderEnd,
    SendAnswer,
    SessionRefusal,
    Step,
    Stop,
    refusal_message,
)
from gpu_tasks.sessions.transcript import Exchange, SessionName, Transcript

NEVER = 1 << 30


class EchoingProvider:
    """Answers requests with their own bytes, `step` tokens a message.

    `breaks` gives for each line the number of messages, in both directions, after which it breaks.
    """

    def __init__(
        self, breaks: Iterable[int] = (), *, step: int = 7, disk: Path | None = None, amount_max: int = AMOUNT_MAX
    ) -> None:
        """Start in period 0, or go on from `disk`."""
        self.breaks = iter(breaks)
        self.step, self.disk, self.amount_max = step, disk, amount_max
        self.kept: list[KeepVoucher] = []
        self.entries = 0
        self.lines: list[_MemoryLine] = []
        self.is_reachable = True
        self.answer: Callable[[ProviderMessage], list[ProviderMessage]] = lambda message: [message]
        """Replaces each message that the provider sends, for tests of faults."""
        self.end = self._from_disk()
        self._asked = b""
        self._serving: asyncio.Task[None] | None = None

    def _from_disk(self) -> ProviderEnd:
        end = provider_end(amount_max=self.amount_max)
        lines = self.disk.read_bytes().split(b"\n")[:-1] if self.disk is not None and self.disk.exists() else []
        if lines:
            row = json.loads(lines[-1])
            keep = KeepVoucher(VOUCHER.decode(bytes.fromhex(row["voucher"])), bytes.fromhex(row["signature"]))
            name = SessionName(GENESIS, session_claim_id(SESSION, 0), bytes.fromhex(row["secret"]))
            exchanges = [Exchange(bytes.fromhex(request), tokens) for request, tokens in row["exchanges"]]
            end.resume(Transcript(name, EchoForm(), exchanges), keep)
            self.kept.append(keep)
        return end

    def next_period(self) -> None:
        """Claim the period between two requests, and tell the customer if it is there."""
        self.end = provider_end(self.end.period + 1, self.amount_max)
        if self.lines and not self.lines[-1].is_broken:
            self.lines[-1].to_customer(PeriodOver(self.end.period - 1))

    @asynccontextmanager
    async def dial(self, period: int) -> AsyncIterator[ProviderLine]:
        """Open a line. A newer line replaces an older one."""
        if not self.is_reachable:
            raise ConnectionError("connection refused")
        line = _MemoryLine(next(self.breaks, NEVER))
        self.lines.append(line)
        await self._stop_serving()
        self._serving = asyncio.create_task(self._serve(line))
        try:
            yield line
        finally:
            line.break_off()
            await self._stop_serving()

    async def _stop_serving(self) -> None:
        if self._serving is not None and self._serving is not asyncio.current_task():
            self._serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._serving

    async def _serve(self, line: _MemoryLine) -> None:
        reader = MessageReader()
        self._asked = b""
        with contextlib.suppress(ConnectionError):
            while True:
                await asyncio.sleep(0)
                if self._asked and self.end.allowance and line.inbox.empty():
                    self._carry_out(line, self._tokens())
                    continue
                for body in reader.take(await line.to_provider()):
                    message = CUSTOMER_MESSAGE.decode(body)
                    if self.end.transcript is None and not isinstance(message, EnterSession):
                        continue  # it crossed the end of the period
                    self.entries += isinstance(message, EnterSession)
                    try:
                        self._carry_out(line, self.end.take(message))
                    except SessionRefusal as refusal:
                        line.to_customer(refusal_message(refusal))
                        if refusal.is_final:
                            return

    def _tokens(self) -> list[Step]:
        assert self.end.transcript is not None
        done = self.end.transcript.place.tokens
        answer = self._asked[1 : 1 + self._asked[0]]
        tokens = tuple(answer[done : done + min(self.step, self.end.allowance)])
        is_last = done + len(tokens) == len(answer)
        steps = self.end.answer(tokens, is_last=is_last)
        if is_last:
            self._asked = b""
        return steps

    def _carry_out(self, line: _MemoryLine, steps: list[Step]) -> None:
        for step in steps:
            match step:
                case KeepVoucher():
                    self._keep(step)
                case Begin():
                    self._asked = step.request
                case Stop():
                    self._asked = b""
                case SendAnswer(message):
                    for sent in self.answer(message):
                        line.to_customer(sent)

    def _keep(self, keep: KeepVoucher) -> None:
        self.kept.append(keep)
        if self.disk is not None and self.end.transcript is not None:
            transcript = self.end.transcript
            row = {
                "secret": transcript.name.secret.hex(),
                "exchanges": [(each.request.hex(), each.tokens) for each in transcript.exchanges],
                "voucher": VOUCHER.encode(keep.voucher).hex(),
                "signature": keep.signature.hex(),
            }
            with self.disk.open("ab") as file:
                file.write(json.dumps(row).encode() + b"\n")


class _MemoryLine:
    """Both directions of a line."""

    def __init__(self, messages: int) -> None:
        self.inbox: asyncio.Queue[bytes] = asyncio.Queue()
        self.outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._left = messages
        self.is_broken = False

    def _count(self) -> None:
        if self.is_broken:
            raise ConnectionError("the line is broken")
        if not self._left:
            self.break_off()
            raise ConnectionError("the line broke")
        self._left -= 1

    def break_off(self) -> None:
        """Break the line. Bytes under way arrive."""
        if not self.is_broken:
            self.is_broken = True
            self.inbox.put_nowait(b"")
            self.outbox.put_nowait(b"")

    async def send(self, data: bytes) -> None:
        """See `ProviderLine`."""
        self._count()
        # In two parts, since a stream has no borders of messages.
        self.inbox.put_nowait(data[:5])
        if data[5:]:
            self.inbox.put_nowait(data[5:])

    async def receive(self) -> bytes:
        """See `ProviderLine`."""
        return self._whole(await self.outbox.get())

    async def to_provider(self) -> bytes:
        """Return the next bytes of the customer."""
        return self._whole(await self.inbox.get())

    def to_customer(self, message: ProviderMessage) -> None:
        """Send a message of the provider."""
        self._count()
        self.outbox.put_nowait(framed(PROVIDER_MESSAGE.encode(message)))

    def _whole(self, data: bytes) -> bytes:
        if not data:
            raise ConnectionError("the provider hung up")
        return data


async def no_other(leg: int, reason: str) -> None:
    """There is no spare."""


def client_of(
    store: SessionFile, provider: EchoingProvider, find_next: Callable[..., object] = no_other
) -> SessionClient:
    """Return the customer of a provider's session."""
    return SessionClient(
        TERMS, EchoForm(), store, signature_of, NextProvider(0, 0, provider.dial), find_next,  # type: ignore[arg-type]
    )  # fmt: skip


async def answered(client: SessionClient, request: bytes) -> bytes:
    """Ask, and return the whole answer."""
    return bytes([token async for arrived in client.ask(request) for token in arrived.tokens])
