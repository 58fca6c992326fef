"""One session behind the tunnel, from stream to stream and from period to period.

    messages -> ProviderEnd -> steps: keep the voucher, begin or stop the answer, send
    the answer's tokens, as far as `allowance` goes -> ProviderEnd -> send

Invariants:

* The disk is the truth. Each stream begins from it. The unpaid tokens of the former stream stay in memory, for a
  voucher that was on its way.
* One stream at a time: a newer one replaces the older, whose answer stops first.
* A customer that owes a message, or does not read, loses its stream and so its lane after a bounded time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpu_tasks.market.sessions.vouchers import Voucher, voucher_payload
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.journal.schema import JournalError
from gpu_tasks.provider.sessions.session_store import KeptPeriod, SessionStore
from gpu_tasks.sessions.messages import (
    CUSTOMER_MESSAGE,
    LENGTH_BYTES,
    PROVIDER_MESSAGE,
    CustomerMessage,
    EnterSession,
    MessageReader,
    PeriodOver,
    ProviderMessage,
    framed,
)
from gpu_tasks.sessions.provider_end import (
    LOSSES_FIRST,
    PAID_FOR_ONE_LOST,
    Begin,
    KeepVoucher,
    ProviderEnd,
    SendAnswer,
    SessionRefusal,
    SessionTerms,
    Step,
    Stop,
    VerifyVoucher,
    refusal_message,
)
from gpu_tasks.sessions.transcript import StreamedForm
from runtime.blocks.extrinsic import MULTI_SIGNATURE
from runtime.cryptography.signatures import verify
from runtime.encoding.codec import DecodeError
from wallet.errors import CodedError, code_of

WASTED_MAX = 32
"""The refused and useless messages of a stream. Each costs this provider time, and its customer nothing."""
OUTGOING_MAX = 256
"""The messages that wait for a customer. One that reads has fewer: tokens wait for vouchers."""
FLUSH_SECONDS = 5.0
TICK_PARTS = 4
NEEDS_NEW_PERIOD = ("deposit_spent", "period_full")


class AnswerTokens(Protocol):
    """The next tokens of an answer (`LivePiece`)."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens."""
        ...

    @property
    def finish(self) -> int | None:
        """Not None with the last tokens."""
        ...


Generate = Callable[[bytes], AsyncGenerator[AnswerTokens, None]]
"""Computes the answer to a request token by token. Closing the iterator frees its lane."""


class ConverseStream(Protocol):
    """A stream of a tunnel (`TunnelStream`)."""

    async def read(self) -> tuple[int, bytes] | None:
        """Return the next bytes and their channel, or None at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes. Raise TunnelError if the stream has ended."""
        ...

    async def finish(self, code: int = 0, problem: str = "") -> None:
        """End the stream."""
        ...


@dataclass(frozen=True, slots=True)
class ServingLimits:
    """The seconds for which a stream waits for its customer."""

    entering: float = 10.0
    """For the first message."""
    paying: float = 60.0
    """For a due voucher, and for the rest of a message."""


def verifier(genesis: bytes, signer: bytes) -> VerifyVoucher:
    """Return the check of signatures of a session's signer."""

    def is_signed(voucher: Voucher, signature: bytes) -> bool:
        try:
            signed = MULTI_SIGNATURE.decode(signature)
        except DecodeError:
            return False
        return verify(signed.scheme, signer, voucher_payload(genesis, voucher), signed.signature)

    return is_signed


class ServedSession:
    """One session at its provider."""

    def __init__(
        self,
        terms: SessionTerms,
        form: StreamedForm,
        verify_voucher: VerifyVoucher,
        store: SessionStore,
        generate: Generate,
        amount_max: Callable[[int], int],
        first_period: int = 0,
        limits: ServingLimits | None = None,
    ) -> None:
        """Go on from the disk. `amount_max` returns the most grains of a new period, beside a claim of so many grains.

        `first_period` is the earliest period that the chain lets this provider claim.
        """
        self.terms = terms
        self.limits = ServingLimits() if limits is None else limits
        self.generate = generate
        self._form, self._verify = form, verify_voucher
        self._store, self._amount_max = store, amount_max
        kept = store.periods(terms.session)
        newest = kept[-1].voucher.period + kept[-1].is_closed if kept else 0
        self.period = max(first_period, newest)
        """The period that takes vouchers."""
        self._unpaid: tuple[KeepVoucher, tuple[int, ...]] | None = None
        """The newest voucher of the former stream, and at most `UNPAID_TOKENS_MAX` tokens that it sent beyond it."""
        self._losses = LOSSES_FIRST
        self._conversation: _Conversation | None = None
        self._one = asyncio.Lock()
        self._is_over = False

    @property
    def kept(self) -> KeptPeriod | None:
        """The newest voucher of the present period."""
        return self._store.period(self.terms.session, self.period)

    @property
    def is_streaming(self) -> bool:
        """True while the customer is connected."""
        return self._conversation is not None

    async def serve(self, stream: ConverseStream) -> None:
        """Serve a stream until it ends, and end it. An older stream ends first."""
        if self._conversation is not None:
            self._conversation.break_off("replaced", "a newer stream of the session replaces this one")
        conversation = self._conversation = _Conversation(self, stream)
        try:
            async with self._one:
                if self._is_over:
                    conversation.break_off("session_over", "the session is over here")
                await conversation.run()
        finally:
            if self._conversation is conversation:
                self._conversation = None

    def end_period(self, *, is_urgent: bool = False) -> bool:
        """Return True once the present period has vouchers and takes no more: the next one has begun.

        While an answer or its voucher is under way, the period ends after it. An urgent end breaks the stream instead.
        """
        if self.kept is None:
            return False
        conversation = self._conversation
        if conversation is not None and conversation.end is not None:
            if conversation.end.is_settled:
                conversation.next_period()
                return True
            if not is_urgent:
                conversation.is_ending = True
                return False
            conversation.break_off("period_over", "the period ends here; go on in the next one")
        self.close_period()
        return True

    def leave(self) -> None:
        """Take no more streams and no more vouchers."""
        self._is_over = True
        if self._conversation is not None:
            self._conversation.break_off("session_over", "the session is over here")
        if self.kept is not None:
            self.close_period()

    # ------------------------------------------------------------------------------------------- for its conversations

    def close_period(self) -> None:
        """Begin the next period. Unpaid tokens of the former one are lost."""
        if self._unpaid is not None:
            self._losses -= PAID_FOR_ONE_LOST * len(self._unpaid[1])
            self._unpaid = None
        self._store.close_period(self.terms.session, self.period)
        self.period += 1

    def new_end(self) -> ProviderEnd:
        """Return the provider's end of the present period, as the disk has it."""
        end = ProviderEnd(self.terms, self.period, self._form, self._verify, self._amount_max(0), self._losses)
        kept = self.kept
        if kept is not None:
            transcript = self._store.transcript(self.terms.genesis, kept, self._form)
            newest = KeepVoucher(kept.voucher, kept.signature)
            if self._unpaid is not None and self._unpaid[0] == newest:
                transcript.exchanges[-1].tokens += self._unpaid[1]
            end.resume(transcript, newest)
        return end

    def keep_unpaid(self, end: ProviderEnd) -> None:
        """Remember the unpaid tokens of a stream that ends."""
        self._unpaid = None if end.newest is None else (end.newest, end.unpaid)
        self._losses = end.losses

    def keep(self, end: ProviderEnd, kept: KeepVoucher) -> None:
        """Write a voucher."""
        assert end.transcript is not None, "a voucher pays for a transcript"
        self._store.keep(end.transcript, kept)

    def would_help(self, end: ProviderEnd) -> bool:
        """Return True if a new period has room for a request that this one refuses."""
        if end.newest is None or not end.is_settled:
            return False
        used = self.terms.amount(end.newest.voucher.totals)
        # A period that is worth nothing cannot be claimed, and goes on. A new one has the room of this one again, or
        # else the rest of the deposit after its claim and fees.
        return used > 0 and self._amount_max(used) > end.amount_max - used // 2


class _EndedError(CodedError):
    """The stream ends for this reason."""


class _Conversation:
    """One stream."""

    def __init__(self, session: ServedSession, stream: ConverseStream) -> None:
        self.end: ProviderEnd | None = None
        """None once the stream is broken: then the disk alone counts."""
        self.is_ending = False
        self._session, self._stream = session, stream
        self._reader, self._partial_bytes = MessageReader(), 0
        self._outgoing: deque[ProviderMessage] = deque()
        self._has_outgoing, self._is_sent, self._may_send = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._is_sent.set()
        self._broken: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()
        self._answering: asyncio.Task[None] | None = None
        self._is_entered = self._is_between = False
        self._wasted = 0
        self._heard_at = 0.0

    async def run(self) -> None:
        """Serve the stream, and end it."""
        tasks: list[asyncio.Task[None]] = []
        if not self._broken.done():
            self._open()
            tasks = [asyncio.create_task(self._guarded(each)) for each in (self._read(), self._write(), self._watch())]
        try:
            code, text = await asyncio.shield(self._broken)
            await self._stop_answer()
            with contextlib.suppress(TimeoutError):
                # The refusal that ends the stream should arrive.
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._is_sent.wait()
            await self._stream.finish(int(bool(code)), f"{code}: {text}" if code else "")
        finally:
            self.break_off("", "the stream was cut")
            for task in tasks:
                task.cancel()
            await self._stop_answer()
            if tasks:
                await asyncio.wait(tasks)

    def break_off(self, code: str, text: str) -> None:
        """End the stream, for a reason or as its customer did. Nothing more is taken or computed from now on."""
        if self.end is not None:
            self._session.keep_unpaid(self.end)
        self.end = None
        if self._answering is not None:
            self._answering.cancel()
        if not self._broken.done():
            self._broken.set_result((code, text))

    def next_period(self) -> None:
        """Begin the next period, between two requests."""
        over = self._session.period
        if self.end is not None:
            self._session.keep_unpaid(self.end)
        self._session.close_period()
        self._send(PeriodOver(over))
        self._open()
        # A message that crossed is about the old period.
        self._is_between = True
        self.is_ending = False

    def _open(self) -> None:
        try:
            self.end = self._session.new_end()
        except JournalError as error:
            self.break_off(error.code or "store_failed", "this provider cannot read its records")

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a part of the stream. Its end is the end of the stream."""
        try:
            await work
            self.break_off("", "")
        except _EndedError as error:
            self.break_off(error.code or "", str(error))
        except JournalError as error:
            self.break_off(error.code or "store_failed", "this provider cannot write its records")
        # A TunnelError, or an error of the generator: both have a code or a class that names them.
        except (CodedError, ConnectionError) as error:
            self.break_off(code_of(error) or "stream_ended", str(error))

    # ------------------------------------------------------------------------------------------------------- messages

    async def _read(self) -> None:
        while (received := await self._stream.read()) is not None:
            self._partial_bytes += len(received[1])
            try:
                for body in self._reader.take(received[1]):
                    self._partial_bytes -= LENGTH_BYTES + len(body)
                    self._heard_at = asyncio.get_running_loop().time()
                    await self._take(CUSTOMER_MESSAGE.decode(body))
            except DecodeError as error:
                raise _EndedError(str(error), code="malformed_message") from None

    async def _take(self, message: CustomerMessage) -> None:
        end = self.end
        if end is None:
            return
        if self._is_between and not isinstance(message, EnterSession):
            self._waste()
            return
        self._is_between = False
        try:
            steps = end.take(message)
        except SessionRefusal as refusal:
            self._refuse(end, refusal)
            return
        self._is_entered = True
        if not steps:
            self._waste()
        await self._carry_out(end, steps)
        self._may_send.set()
        if self.is_ending and self.end is end and end.is_settled and end.newest is not None:
            self.next_period()

    def _refuse(self, end: ProviderEnd, refusal: SessionRefusal) -> None:
        if refusal.code in NEEDS_NEW_PERIOD and self._session.would_help(end):
            self.next_period()
            return
        self._send(refusal_message(refusal))
        if refusal.is_final:
            raise _EndedError(str(refusal), code=refusal.code)
        self._waste()

    def _waste(self) -> None:
        self._wasted += 1
        if self._wasted > WASTED_MAX:
            raise _EndedError(f"more than {WASTED_MAX} refused or useless messages", code="too_many_refusals")

    async def _carry_out(self, end: ProviderEnd, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case KeepVoucher():
                    self._session.keep(end, step)
                case Begin():
                    self._answering = asyncio.create_task(self._guarded_answer(end, step.request))
                case Stop():
                    await self._stop_answer()
                case SendAnswer():
                    self._send(step.message)

    # --------------------------------------------------------------------------------------------------------- answers

    async def _guarded_answer(self, end: ProviderEnd, request: bytes) -> None:
        try:
            await self._answer(end, request)
        except (CodedError, ConnectionError) as error:
            # The customer has paid the prompt. It comes back, and asks again or hands the session over.
            problem = error if isinstance(error, ExecutionError) else None
            self.break_off(
                code_of(error) or "execution_failed",
                "this provider cannot compute the answer now" if problem is None else str(problem),
            )

    async def _answer(self, end: ProviderEnd, request: bytes) -> None:
        async with contextlib.aclosing(self._session.generate(request)) as pieces:
            async for piece in pieces:
                waiting = piece.tokens
                while waiting:
                    await self._allowed(end)
                    part, waiting = waiting[: end.allowance], waiting[end.allowance :]
                    steps = end.answer(part, is_last=not waiting and piece.finish is not None)
                    for step in steps:
                        assert isinstance(step, SendAnswer), "tokens are sent, and nothing else"
                        self._send(step.message)

    async def _allowed(self, end: ProviderEnd) -> None:
        while end.allowance <= 0:
            self._may_send.clear()
            await self._may_send.wait()

    async def _stop_answer(self) -> None:
        """Stop the answer, and wait until its lane is free."""
        answering, self._answering = self._answering, None
        if answering is not None and answering is not asyncio.current_task():
            answering.cancel()
            await asyncio.wait({answering})

    # --------------------------------------------------------------------------------------------------------- sending

    def _send(self, message: ProviderMessage) -> None:
        """Send a message after those before it. It does not wait, so a cancelled answer loses no sent tokens."""
        self._outgoing.append(message)
        self._is_sent.clear()
        self._has_outgoing.set()
        if len(self._outgoing) > OUTGOING_MAX:
            self.break_off("not_reading", "the customer does not read")

    async def _write(self) -> None:
        try:
            while True:
                while self._outgoing:
                    await self._stream.write(framed(PROVIDER_MESSAGE.encode(self._outgoing[0])))
                    self._outgoing.popleft()
                self._is_sent.set()
                self._has_outgoing.clear()
                await self._has_outgoing.wait()
        finally:
            self._is_sent.set()

    async def _watch(self) -> None:
        """End the stream of a customer that owes a message for too long."""
        loop, limits = asyncio.get_running_loop(), self._session.limits
        began_at, owes_since = loop.time(), None
        while True:
            await asyncio.sleep(min(limits.entering, limits.paying) / TICK_PARTS)
            now = loop.time()
            if not self._is_entered and now - began_at > limits.entering:
                raise _EndedError("the customer did not enter the session", code="no_entry")
            if not self._partial_bytes and not self._owes_voucher():
                owes_since = None
            elif owes_since is None or owes_since < self._heard_at:
                owes_since = now
            elif now - owes_since > limits.paying:
                raise _EndedError("the customer's message or voucher did not come", code="silent")

    def _owes_voucher(self) -> bool:
        end = self.end
        if end is None or end.transcript is None or not end.transcript.exchanges:
            return False
        return end.allowance <= 0 if end.transcript.is_answering else not end.is_settled
