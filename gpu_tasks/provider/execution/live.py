"""Streamed answers from one live worker process, several side by side.

Invariants:

* The daemon's own process never computes a customer's request.
* A customer that does not read delays its own answer only, and at most `LIVE_WINDOW` tokens wait for it.
* When the process dies, each of its requests fails once, and the next one starts it anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from gpu_tasks.provider.execution import worker_wire as wire
from gpu_tasks.provider.execution.executor import ONE_THREAD, BadRequestError, ExecutionError
from gpu_tasks.provider.execution.limits import Limits
from gpu_tasks.provider.execution.worker_process import NoAnswerError, WorkerProcess
from runtime.encoding.codec import DecodeError
from wallet.amounts import counted
from wallet.errors import CodedError

TAKEN_AT_ONCE = wire.LIVE_WINDOW // 2
"""Tokens after which the worker hears that the customer has taken them."""


class AllPlacesTaken(CodedError):
    """Each place of the worker has a request."""


class LivePiece(NamedTuple):
    """The next tokens of an answer."""

    tokens: tuple[int, ...]
    """At least one, at most `LIVE_WINDOW`."""
    finish: int | None
    """The reason for the end of the answer, as in its output, with the last tokens; otherwise None."""


@dataclass(slots=True)
class _Answer:
    """The received part of an answer that its customer has not taken yet."""

    tokens: list[int] = field(default_factory=list)
    finish: int | None = None
    error: CodedError | None = None
    window: int = wire.LIVE_WINDOW
    """Tokens that the worker may still send."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_ended(self) -> bool:
        """True if the worker sends nothing more."""
        return self.finish is not None or self.error is not None


class LiveHost:
    """A live worker process with a fixed number of places, which starts when needed."""

    def __init__(
        self, command: Sequence[str], limits: Limits, places: int, environment: Mapping[str, str] | None = None
    ) -> None:
        """`command` starts a worker with `--live PLACES` that limits itself. It also sees `environment`."""
        self._command, self._environment = tuple(command), dict(environment or {})
        self._limits, self._places = limits, places
        self._open = 0
        """Requests. Some may still wait for the start of the worker."""
        self._worker: _Worker | None = None
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Start the worker unless one runs, and wait until it is ready. Raise ExecutionError."""
        await self._running_worker()

    async def generate(self, request: bytes) -> AsyncGenerator[LivePiece, None]:
        """Yield the tokens of an answer as they are drawn. Closing the iterator ends the request.

        Raise AllPlacesTaken, BadRequestError, or ExecutionError. Use `contextlib.aclosing` to leave it early.
        """
        if self._open >= self._places:
            raise AllPlacesTaken(f"all {counted(self._places, 'place')} of the device are taken")
        self._open += 1
        try:
            worker = await self._running_worker()
            number = await worker.begin(request)
            try:
                while True:
                    piece = await worker.next_tokens(number)
                    yield piece
                    if piece.finish is not None:
                        return
            finally:
                worker.leave(number)
        finally:
            self._open -= 1

    async def close(self) -> None:
        """End the worker and fail its requests."""
        async with self._starting:
            worker, self._worker = self._worker, None
            if worker is not None:
                await worker.close()

    async def _running_worker(self) -> _Worker:
        async with self._starting:
            # A request that waits for its start is the only one, so a worn worker that it replaces has none.
            if self._worker is not None and (self._worker.error is not None or (self._open <= 1 and self._is_worn())):
                await self._worker.close()
                self._worker = None
            if self._worker is None:
                worker = _Worker(WorkerProcess(self._command, ONE_THREAD | self._environment), self._limits)
                await worker.start()
                self._worker = worker
            return self._worker

    def _is_worn(self) -> bool:
        """Return True if the worker may have used half of the CPU time of its life."""
        # At its end the kernel kills the process, in the middle of a chat. A thread uses at most a second a second.
        return self._worker is not None and self._worker.age() > self._limits.cpu_seconds_life // 2


class _Worker:
    """A live worker process from its start to its death, and the answers that it owes."""

    def __init__(self, process: WorkerProcess, limits: Limits) -> None:
        self._process, self._limits = process, limits
        self._numbers = count()
        self._answers: dict[int, _Answer] = {}
        self._reader: asyncio.Task[None] | None = None
        self._started_at = self._heard_at = time.monotonic()
        self.error: ExecutionError | None = None
        """The reason for the end of the process."""

    def age(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._started_at

    async def start(self) -> None:
        """Start the process, wait until it is ready, and read its answers from then on. Raise ExecutionError."""
        await self._process.start()
        try:
            await asyncio.wait_for(self._read_ready(), self._limits.start_seconds)
        except TimeoutError:
            await self._process.kill()
            raise ExecutionError(
                f"the worker was not ready within {self._limits.start_seconds} s", code="worker_not_ready"
            ) from None
        except BaseException:
            await self._process.kill()
            raise
        self._reader = asyncio.create_task(self._read_answers())

    async def _read_ready(self) -> None:
        ready = await self._read()
        if not isinstance(ready, wire.Ready):
            reason = ready.reason if isinstance(ready, wire.Failed) else ready
            raise ExecutionError(f"the worker did not start: {reason}", code="worker_not_started")

    async def begin(self, request: bytes) -> int:
        """Send a request, and return its number. Raise ExecutionError."""
        # The pipe holds at most one request for each place, however fast customers come and go.
        if self.error is None:
            with contextlib.suppress(ConnectionError):  # the reader reports the end of the process
                await self._process.drain()
        if self.error is not None:
            raise self.error
        number = next(self._numbers)
        self._answers[number] = _Answer()
        self._write(wire.LiveBegin(number, request))
        return number

    async def next_tokens(self, number: int) -> LivePiece:
        """Wait for tokens of an answer, and take them. Raise the answer's error after its last tokens."""
        answer = self._answers[number]
        while not answer.tokens and not answer.is_ended:
            answer.changed.clear()
            try:
                await asyncio.wait_for(answer.changed.wait(), self._limits.wall_seconds)
            except TimeoutError:
                # The worker reports each part of a prompt, so a silent one sleeps or waits.
                if time.monotonic() - self._heard_at >= self._limits.wall_seconds:
                    reason = f"stopped after more than {self._limits.wall_seconds} s without a token"
                    await self._end(ExecutionError(reason, code="execution_too_long"))
        if not answer.tokens and answer.error is not None:
            raise answer.error
        return self._taken(number, answer)

    def _taken(self, number: int, answer: _Answer) -> LivePiece:
        """Return all received tokens, and tell the worker that it may send more."""
        tokens, answer.tokens = tuple(answer.tokens), []
        taken = wire.LIVE_WINDOW - answer.window
        if not answer.is_ended and taken >= TAKEN_AT_ONCE:
            answer.window += taken
            self._write(wire.LiveMore(number, taken))
        return LivePiece(tokens, answer.finish)

    def leave(self, number: int) -> None:
        """Forget an answer, and drop its request if it is not ended."""
        if not self._answers.pop(number).is_ended:
            self._write(wire.LiveDrop(number))

    async def close(self) -> None:
        """End the process and its requests."""
        await self._end(ExecutionError("the live worker was closed", code="worker_ended"))
        if self._reader is not None:
            await asyncio.gather(self._reader, return_exceptions=True)

    def _write(self, question: wire.LiveQuestion) -> None:
        self._process.write(wire.LIVE_QUESTION.encode(question))

    async def _read(self) -> wire.LiveAnswer:
        try:
            body = await self._process.read(wire.LIVE_ANSWER_BYTES_MAX, self._limits.cpu_seconds)
            found: wire.LiveAnswer = wire.LIVE_ANSWER.decode(body)
        except DecodeError as error:
            raise ExecutionError(f"the worker's output is not an answer: {error}", code="wrong_worker_answer") from None
        except NoAnswerError as error:
            raise ExecutionError(str(error), code="worker_ended") from None
        self._heard_at = time.monotonic()
        return found

    async def _read_answers(self) -> None:
        """Hand the worker's answers to their requests until it ends."""
        try:
            while self.error is None:
                self._receive(await self._read())
        except ExecutionError as error:
            await self._end(error)

    def _receive(self, found: wire.LiveAnswer) -> None:
        """Hand an answer to its request. Raise ExecutionError for one that a correct worker does not send."""
        if isinstance(found, wire.Failed):
            raise ExecutionError(found.reason, code="execution_failed")
        if isinstance(found, wire.Ready):
            raise ExecutionError("the worker was ready twice", code="wrong_worker_answer")
        answer = self._answers.get(found.number)
        if answer is None:  # dropped while its tokens were on their way
            return
        # The worker ran a customer's data, so its answers are checked.
        if answer.is_ended:
            raise ExecutionError("the worker answered an ended request", code="wrong_worker_answer")
        if isinstance(found, wire.LiveBad):
            answer.error = BadRequestError(found.reason)
        elif isinstance(found, wire.LiveFailed):
            answer.error = ExecutionError(found.reason, code="execution_failed")
        else:
            _receive_tokens(answer, found)
        if answer.tokens or answer.is_ended:
            answer.changed.set()

    async def _end(self, error: ExecutionError) -> None:
        """Kill the process, and fail its requests unless they failed before."""
        if self.error is None:
            self.error = error
        for answer in self._answers.values():
            if not answer.is_ended:
                answer.error = self.error
                answer.changed.set()
        await self._process.kill()


def _receive_tokens(answer: _Answer, found: wire.LiveTokens) -> None:
    """Add tokens to an answer. Raise ExecutionError beyond its window, and for an end without a token."""
    if len(found.tokens) > answer.window or (found.finish is not None and not found.tokens):
        raise ExecutionError("the worker sent more tokens than it may, or an empty end", code="wrong_worker_answer")
    answer.window -= len(found.tokens)
    answer.tokens += found.tokens
    answer.finish = found.finish
