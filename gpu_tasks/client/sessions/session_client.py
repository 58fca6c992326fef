"""Requests and answers of a session over a stream that may break, and payments as they become due. It prints nothing.

After a break the client enters again and asks for the rest of the answer. If no provider answers for
`GONE_SECONDS`, the caller names the next one.

Invariants:

* A voucher is on disk before it is sent. A request is sent at most once in each stream.
* The tokens of an answer are those of one run of its request, for any breaks, ends of the process and hand-overs.
* A provider that breaks the protocol gets no further voucher in that stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Protocol

from gpu_tasks.batches.requests import TOKEN, work_of
from gpu_tasks.client.sessions.session_store import ChatTurn, SessionFile, SessionLeg
from gpu_tasks.market.sessions.vouchers import SECRET_BYTES, Voucher
from gpu_tasks.sessions.customer_end import Arrived, CustomerEnd, SessionFault
from gpu_tasks.sessions.messages import (
    CUSTOMER_MESSAGE,
    PROVIDER_MESSAGE,
    UNPAID_TOKENS_MAX,
    Ask,
    CustomerMessage,
    Cut,
    MessageReader,
    Pay,
    ProviderMessage,
    SessionEntered,
    Tokens,
    framed,
)
from gpu_tasks.sessions.provider_end import SessionRefusal, SessionTerms
from gpu_tasks.sessions.transcript import StreamedForm
from runtime.encoding.codec import DecodeError
from wallet.errors import CodedError

GONE_SECONDS = 20.0
"""A provider that cannot be entered for so long is gone."""
SILENCE_SECONDS = 120.0
"""The longest wait for a message amid an answer. Reading 8,192 tokens of a prompt takes a slow CPU longer than others
wait, so this bounds a provider that keeps the line open and computes nothing."""
ENTER_SECONDS = 10.0
"""The longest wait for the answer to `EnterSession`, and for the end of an answer after `Cut`."""
BACKOFF_SECONDS = (0.0, 0.2, 0.5, 1.0, 2.0, 3.0)
"""The waits before attempts to enter. The last one repeats."""
QUEUED_MAX = 128
"""Messages that wait to be read. At most 64 hold tokens, because unpaid tokens are limited."""
PERIOD_SECONDS = 120.0
"""The longest wait for a provider that must claim its period before it takes the next request."""
WAIT_TOLD_SECONDS = 3.0
"""A wait that lasts so long is explained."""
TRIES_MAX = 5
"""Requests of one turn, one after another, that bring too few tokens (`_tokens_wished`). Each pays its prompt."""


class ContinuedForm(StreamedForm, Protocol):
    """A workload whose answers can be continued (`WorkloadForm`)."""

    def continued(self, request: bytes, tokens: Sequence[int]) -> bytes:
        """Return the request for the rest of an answer. Raise DecodeError for an answer that has ended."""
        ...


class ProviderLine(Protocol):
    """A stream to the provider. Its methods raise ConnectionError once it is broken."""

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        ...

    async def receive(self) -> bytes:
        """Return the next bytes, at least one. Raise ConnectionError at the end, with the provider's reason."""
        ...


Dial = Callable[[int], AbstractAsyncContextManager[ProviderLine]]
"""Opens a stream to the provider of a period. Entering raises ConnectionError, with the reason, if that fails."""
SignVoucher = Callable[[Voucher], bytes]


@dataclass(frozen=True, slots=True)
class NextProvider:
    """The provider of the next leg."""

    leg: int
    first_period: int
    dial: Dial


FindNext = Callable[[int, str], Awaitable[NextProvider | None]]
"""Hands the session over when the provider of a leg is gone, for a reason. Returns None if there is no other."""


class ProviderGoneError(CodedError):
    """No provider of the session answers."""


class _BrokenError(Exception):
    """The stream has ended, or its provider broke the protocol."""


class SessionClient:
    """One session. One task at a time asks; `cut` may come from another."""

    def __init__(
        self, terms: SessionTerms, form: ContinuedForm, store: SessionFile, sign: SignVoucher,
        provider: NextProvider, find_next: FindNext,
    ) -> None:  # fmt: skip
        """Take a session with its present provider. Nothing is sent yet."""
        self.terms = terms
        self.on_break: Callable[[str], None] = lambda _: None
        """Called with the reason when the stream breaks, and when an attempt to enter fails."""
        self.on_wait: Callable[[str], None] = lambda _: None
        """Called with the reason of a wait after `WAIT_TOLD_SECONDS`."""
        self.require_open: Callable[[], Awaitable[None]] = _nothing
        """Awaited after each failed attempt to enter. It raises an error once the session is over on the chain."""
        self._has_broken = asyncio.Event()
        self._form, self._store, self._sign, self._find_next = form, store, sign, find_next
        self._stack: AsyncExitStack | None = None
        self._stream: _Stream | None = None
        self._is_cut = asyncio.Event()
        self._provider = provider
        self._end = self._begin(provider)

    def _begin(self, provider: NextProvider) -> CustomerEnd:
        """Return this end of a leg, as the disk has it."""
        leg = self._store.leg()
        if leg is None or leg.number < provider.leg:
            leg = SessionLeg(provider.leg, provider.first_period, secrets.token_bytes(SECRET_BYTES))
            self._store.begin_leg(leg)
        newest = self._store.newest_period(leg.number)
        period = leg.first_period if newest is None else max(newest, leg.first_period)
        end = CustomerEnd(self.terms, self._form, leg.secret, period)
        end.resume(self._store.exchanges())
        return end

    @property
    def spent(self) -> int:
        """The grains that all vouchers of the session promise."""
        return sum(self.terms.amount(voucher.totals) for voucher in self.vouchers)

    @property
    def vouchers(self) -> list[Voucher]:
        """The newest voucher of each period, in ascending order."""
        return [voucher for voucher, _ in self._store.vouchers()]

    async def enter(self) -> None:
        """Enter the session now, so that the first question does not wait. Raise as `ask`."""
        self._is_cut.clear()
        await self._entered()

    async def ask(self, request: bytes, question: str = "") -> AsyncGenerator[Arrived, None]:
        """Keep a question, and yield its answer. See `go_on`."""
        self._store.begin_turn(question, request)
        async with contextlib.aclosing(self.go_on()) as parts:
            async for arrived in parts:
                yield arrived

    async def go_on(self) -> AsyncGenerator[Arrived, None]:
        """Yield the rest of the last turn's answer, as it arrives. The last part has `is_last`.

        Raise SessionRefusal if the provider refuses the request, and ProviderGoneError if no provider answers. The turn
        stays open then, unless the request itself was refused.
        """
        turn = self._store.turns[-1]
        self._is_cut.clear()
        tries = 0
        while not turn.is_over:
            before = len(turn.tokens)
            request = self._next_request(turn)
            stream = None if request is None else await self._entered()
            if request is None or stream is None:  # the answer is whole, or was cut during a break
                yield self._over(turn)
                return
            try:
                async with contextlib.aclosing(self._exchange(stream, turn, request)) as parts:
                    async for arrived in parts:
                        yield arrived
            except (_BrokenError, ConnectionError, DecodeError, SessionFault) as error:
                await self._break_off(error)
            except SessionRefusal as refusal:
                await self._after_refusal(stream, turn, refusal)
            except BaseException:
                # The consumer has left, so the answer's rest would arrive in the next one.
                await self._leave()
                raise
            tries = 0 if len(turn.tokens) - before >= self._tokens_wished(request) else tries + 1
            if tries == TRIES_MAX and not turn.is_over:
                await self._replace(f"it broke off {TRIES_MAX} times")
                tries = 0

    async def cut(self) -> None:
        """End the present answer where it is."""
        if self._is_cut.is_set():
            return
        self._is_cut.set()
        stream = self._stream
        if stream is not None and self._end.transcript.is_answering:
            stream.end_within(ENTER_SECONDS)
            with contextlib.suppress(ConnectionError):
                await stream.send(Cut())

    async def settle(self) -> None:
        """Pay for all tokens that arrived. If a voucher may be lost, enter once, and send it again.

        Call it before the session closes on the chain. A provider that cannot be entered is not paid for them.
        """
        if self._stream is not None and await self._is_still_entered(self._stream):
            return
        if self._store.vouchers():
            try:
                await self._enter_once()
            except (_BrokenError, ConnectionError, DecodeError, SessionFault, SessionRefusal):
                await self._leave()

    async def until_over(self) -> None:
        """Wait until the session is over, and raise the error of `require_open`.

        The chain is asked for `GONE_SECONDS` after each break: a provider ends its streams when the session is over.
        """
        loop = asyncio.get_running_loop()
        while True:
            await self._has_broken.wait()
            self._has_broken.clear()
            asked_until = loop.time() + GONE_SECONDS
            while loop.time() < asked_until:
                await self.require_open()
                await asyncio.sleep(BACKOFF_SECONDS[-1])

    async def close(self) -> None:
        """End the stream. The session stays open on the chain."""
        await self._leave()

    # ------------------------------------------------------------------------------------------------------ one answer

    def _next_request(self, turn: ChatTurn) -> bytes | None:
        """Return the request for the rest of the answer, or None if the answer is whole."""
        if not turn.tokens:
            return turn.request
        try:
            return self._form.continued(turn.request, turn.tokens)
        except DecodeError:
            return None

    def _tokens_wished(self, request: bytes) -> int:
        """Return the tokens that make a request worth its prompt.

        A provider that breaks off after fewer each time would be paid more for reading than for answering.
        """
        return max(UNPAID_TOKENS_MAX, work_of(self.terms.input_share, self._form.cost_in(request), 0) // TOKEN)

    async def _exchange(self, stream: _Stream, turn: ChatTurn, request: bytes) -> AsyncGenerator[Arrived, None]:
        """Ask a request, pay for it, and yield its tokens. The turn is over at the end of a whole answer."""
        end = self._end
        voucher = end.ask(request)
        signature = self._paid(voucher)
        await stream.send(Ask(request, voucher.totals, signature))
        is_first = True
        while end.transcript.is_answering:
            with self._telling(WAITS_FOR_ANSWER if is_first else None):
                message = await stream.receive(SILENCE_SECONDS)
            is_first = False
            arrived = self._take(message)
            if not isinstance(message, Tokens):
                raise _BrokenError("the provider does not answer the request")
            if arrived.tokens:
                # Raises DecodeError for tokens that no answer has, before anybody sees them.
                self._form.prefix(request, end.transcript.exchanges[-1].tokens)
            turn.tokens += arrived.tokens
            is_over = arrived.is_last and (self._is_cut.is_set() or self._next_request(turn) is None)
            turn.is_over = is_over
            await self._pay_due(stream, is_over=is_over)
            if arrived.tokens or is_over:
                yield Arrived(arrived.tokens, is_over)
        stream.relax()

    async def _next_period(self, stream: _Stream, *, is_over: bool) -> None:
        """Enter the next period. Unless the present one is over, wait until the provider claims it."""
        try:
            if not is_over:
                with self._telling(WAITS_FOR_CLAIM):
                    self._take(await stream.receive(PERIOD_SECONDS))
            await self._say_hello(stream)
        except (_BrokenError, ConnectionError, DecodeError, SessionFault) as error:
            await self._break_off(error)

    async def _after_refusal(self, stream: _Stream, turn: ChatTurn, refusal: SessionRefusal) -> None:
        """Make ready for the next try. Raise the refusal of a request that would meet it again."""
        if refusal.code in _ENDS_THE_TURN:
            self._refused(turn)
            raise refusal
        if refusal.code in _WAITS_FOR_THE_PERIOD:
            await self._next_period(stream, is_over=refusal.code == "period_over")
        else:
            # The ends disagree about the stream's state, which the next entry settles.
            await self._break_off(refusal)

    async def _pay_due(self, stream: _Stream, *, is_over: bool) -> None:
        voucher = self._end.due()
        if voucher is not None:
            signature = self._paid(voucher)
            # The answer is here. A break now costs the provider its last tokens, unless the customer comes back.
            with contextlib.suppress(ConnectionError):
                await stream.send(Pay(voucher.totals, signature))
        elif is_over:
            self._store.keep_turn()

    def _paid(self, voucher: Voucher) -> bytes:
        """Sign a voucher and keep it. Return the signature."""
        signature = self._sign(voucher)
        self._store.keep(self._end.transcript.exchanges, voucher, signature)
        self._end.paid()
        return signature

    def _take(self, message: ProviderMessage) -> Arrived:
        """Take a message. A period that ended has no exchanges on the disk either."""
        before = self._end.period
        try:
            return self._end.take(message)
        finally:
            if self._end.period != before:
                self._store.begin_period()

    def _over(self, turn: ChatTurn) -> Arrived:
        turn.is_over = True
        self._store.keep_turn()
        return Arrived((), is_last=True)

    def _refused(self, turn: ChatTurn) -> None:
        if turn.tokens:
            self._over(turn)
        else:
            self._store.drop_turn()

    # ------------------------------------------------------------------------------------------------------ the stream

    async def _entered(self) -> _Stream | None:
        """Return the stream after its entry, or None if the answer was cut meanwhile. Raise as `go_on`."""
        if self._stream is not None and await self._is_still_entered(self._stream):
            return self._stream
        with self._telling(WAITS_FOR_ENTRY):
            return await self._entered_again()

    async def _entered_again(self) -> _Stream | None:
        loop = asyncio.get_running_loop()
        gone_at, attempt = loop.time() + GONE_SECONDS, 0
        while True:
            if await self._cut_within(BACKOFF_SECONDS[min(attempt, len(BACKOFF_SECONDS) - 1)]):
                return None
            attempt += 1
            try:
                return await self._enter_once()
            except (_BrokenError, ConnectionError, DecodeError, SessionFault) as error:
                await self._break_off(error)
                await self.require_open()
                if loop.time() >= gone_at:
                    await self._replace(str(error))
                    gone_at, attempt = loop.time() + GONE_SECONDS, 0
            except BaseException:
                await self._leave()
                raise

    async def _cut_within(self, seconds: float) -> bool:
        """Wait, and return True as soon as the answer is cut."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_cut.wait(), seconds)
        return self._is_cut.is_set()

    async def _is_still_entered(self, stream: _Stream) -> bool:
        """Take the messages that arrived since the last answer. Return False if the session must be entered again."""
        try:
            while (message := stream.received()) is not None:
                self._take(message)
                await self._say_hello(stream)
        except (_BrokenError, ConnectionError, DecodeError, SessionFault, SessionRefusal) as error:
            await self._break_off(error)
            return False
        return True

    async def _enter_once(self) -> _Stream:
        self._stack = AsyncExitStack()
        try:
            async with asyncio.timeout(ENTER_SECONDS):
                line = await self._stack.enter_async_context(self._provider.dial(self._end.period))
        except TimeoutError:
            raise _BrokenError(f"the provider does not answer within {ENTER_SECONDS:.0f} seconds") from None
        stream = _Stream(line, self._has_broken)
        self._stack.push_async_callback(stream.stop)
        await self._say_hello(stream)
        self._stream = stream
        return stream

    async def _say_hello(self, stream: _Stream) -> None:
        await stream.send(self._end.hello())
        message = await stream.receive(ENTER_SECONDS)
        self._take(message)
        if not isinstance(message, SessionEntered):
            raise _BrokenError("the provider does not answer the entry")
        # For tokens that arrived before a break, or before a kill of this program.
        await self._pay_due(stream, is_over=False)

    @contextlib.contextmanager
    def _telling(self, reason: str | None) -> Iterator[None]:
        """Explain a wait that lasts too long."""
        timer = None
        if reason is not None:
            timer = asyncio.get_running_loop().call_later(WAIT_TOLD_SECONDS, lambda: self.on_wait(reason))
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()

    async def _break_off(self, error: Exception) -> None:
        await self._leave()
        self.on_break(str(error))

    async def _leave(self) -> None:
        stack, self._stack, self._stream = self._stack, None, None
        if stack is not None:
            with contextlib.suppress(ConnectionError, OSError):
                await stack.aclose()

    async def _replace(self, reason: str) -> None:
        """Go on with another provider. Raise ProviderGoneError if there is none."""
        await self._leave()
        with self._telling(WAITS_FOR_SPARE):
            found = await self._find_next(self._provider.leg, reason)
        if found is None:
            raise ProviderGoneError(
                f"The provider has not answered for {GONE_SECONDS:.0f} seconds ({reason}), and the session has no "
                "other. Your questions and vouchers are kept. Try again later, or close the session",
                code="provider_gone",
            )
        self._provider = found
        self._end = self._begin(found)


async def _nothing() -> None:
    """Do nothing."""


WAITS_FOR_ENTRY = "the connection to the provider"
WAITS_FOR_ANSWER = "the first token. The provider loads the model, reads a long question, or serves others first"
WAITS_FOR_CLAIM = "the provider's claim of the questions so far. The next one is answered after it"
WAITS_FOR_SPARE = "the chain, which hands the session over to its spare"
_WAITS_FOR_THE_PERIOD = frozenset({"period_full", "period_over"})
_ENDS_THE_TURN = frozenset({"bad_request", "deposit_spent"})
"""Refusals of the request itself, which would meet it again."""


class _Stream:
    """The messages of a line. A task reads them, so that an end between two answers is seen."""

    def __init__(self, line: ProviderLine, has_ended: asyncio.Event) -> None:
        """Set `has_ended` when the line ends."""
        self._line, self._has_ended = line, has_ended
        self._messages: asyncio.Queue[bytes | Exception] = asyncio.Queue(QUEUED_MAX)
        self._timer: asyncio.TimerHandle | None = None
        self._sending = asyncio.Lock()
        self._reading = asyncio.create_task(self._read())

    async def send(self, message: CustomerMessage) -> None:
        """Send a message. Raise ConnectionError if the line is broken."""
        # A long request is sent in parts, and `Cut` comes from another task.
        async with self._sending:
            await self._line.send(framed(CUSTOMER_MESSAGE.encode(message)))

    async def receive(self, seconds: float) -> ProviderMessage:
        """Return the next message. Raise ConnectionError, DecodeError or _BrokenError."""
        try:
            async with asyncio.timeout(seconds):
                return self._decoded(await self._messages.get())
        except TimeoutError:
            raise _BrokenError(f"the provider sent nothing for {seconds:.0f} seconds") from None

    def received(self) -> ProviderMessage | None:
        """Return the next message if there is one. Raise as `receive`."""
        return None if self._messages.empty() else self._decoded(self._messages.get_nowait())

    def end_within(self, seconds: float) -> None:
        """Break the stream after this time, unless `relax` or `stop` is called."""

        def expire() -> None:
            self._reading.cancel()
            # With a full queue its reader has something to read, and then finds no more messages in time.
            with contextlib.suppress(asyncio.QueueFull):
                self._messages.put_nowait(_BrokenError(f"the provider did not stop within {seconds:.0f} seconds"))

        self._timer = asyncio.get_running_loop().call_later(seconds, expire)

    def relax(self) -> None:
        """Undo `end_within`."""
        if self._timer is not None:
            self._timer.cancel()

    async def stop(self) -> None:
        """Stop reading."""
        self.relax()
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading

    def _decoded(self, item: bytes | Exception) -> ProviderMessage:
        if isinstance(item, Exception):
            raise item
        message: ProviderMessage = PROVIDER_MESSAGE.decode(item)
        return message

    async def _read(self) -> None:
        reader = MessageReader()
        try:
            while True:
                for body in reader.take(await self._line.receive()):
                    await self._messages.put(body)
        except (ConnectionError, DecodeError) as error:
            self._has_ended.set()
            await self._messages.put(error)
