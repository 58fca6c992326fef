"""Live answers in the worker process: requests come and go between steps, and tokens leave as they are drawn.

Invariants:

* At most the given number of requests is open.
* A request that its customer does not read waits: at most `LIVE_WINDOW` tokens are sent beyond those taken.
* CPU time is limited anew for each step.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from gpu_tasks.provider.execution import limits
from gpu_tasks.provider.execution import worker_wire as wire
from gpu_tasks.provider.execution.limits import Limits
from gpu_tasks.workloads.streamed import Lanes
from runtime.encoding.codec import DecodeError

READ_BYTES = 1 << 16


def serve_live(lanes: Lanes, places: int, worker_limits: Limits, source: int, sink: BinaryIO) -> None:
    """Answer questions from the descriptor `source` until it ends."""
    inbox, requests = _Inbox(source), _Requests(lanes, places)
    try:
        while True:
            for question in inbox.questions(is_blocking=requests.are_waiting()):
                _send(sink, requests.take(question))
            limits.allow_cpu_from_now(worker_limits.cpu_seconds, int(time.process_time()))
            _send(sink, requests.step())
    except (EOFError, DecodeError):  # the daemon has ended, or is of another version
        return
    except (MemoryError, OSError, RuntimeError) as error:
        _send(sink, [wire.Failed(wire.shortened(f"{type(error).__name__}: {error}"))])


def _send(sink: BinaryIO, answers: list[wire.LiveAnswer]) -> None:
    """Send answers at once: each write wakes the daemon."""
    if answers:
        sink.write(b"".join(wire.framed(wire.LIVE_ANSWER.encode(answer)) for answer in answers))
        sink.flush()


class _Inbox:
    """Questions from a pipe, without waiting for them."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._buffer = bytearray()

    def questions(self, *, is_blocking: bool) -> list[wire.LiveQuestion]:
        """Return the questions that have arrived, with `is_blocking` at least one.

        Raise EOFError at the end, and DecodeError for bytes that are no question.
        """
        found: list[wire.LiveQuestion] = []
        while select.select([self._source], [], [], None if is_blocking and not found else 0)[0]:
            part = os.read(self._source, READ_BYTES)
            if not part:
                raise EOFError
            self._buffer += part
            found += self._complete()
        return found

    def _complete(self) -> Iterator[wire.LiveQuestion]:
        while len(self._buffer) >= wire.LENGTH_BYTES:
            length = int.from_bytes(self._buffer[: wire.LENGTH_BYTES], "little")
            if length > wire.LIVE_QUESTION_BYTES_MAX:
                raise DecodeError("a question that is too long")
            end = wire.LENGTH_BYTES + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[wire.LENGTH_BYTES : end])
            del self._buffer[:end]
            yield wire.LIVE_QUESTION.decode(body)


@dataclass(slots=True)
class _Request:
    """An open request: its number, and the tokens that may be sent before its customer takes more."""

    number: int
    window: int = wire.LIVE_WINDOW


class _Requests:
    """The open requests, by lane."""

    def __init__(self, lanes: Lanes, places: int) -> None:
        self._lanes, self._places = lanes, places
        self._open: dict[int, _Request] = {}

    def are_waiting(self) -> bool:
        """Return True if no request can advance before the next question."""
        return len(self._paused()) == len(self._open)

    def _paused(self) -> set[int]:
        return {lane for lane, request in self._open.items() if request.window <= 0}

    def take(self, question: wire.LiveQuestion) -> list[wire.LiveAnswer]:
        """Carry out a question, and return the answer if it is one about a request that does not begin."""
        if isinstance(question, wire.LiveBegin):
            return self._begin(question)
        lane = next((lane for lane, request in self._open.items() if request.number == question.number), None)
        # The daemon may drop a request, or take its tokens, while the answer's end is on its way.
        if lane is not None and isinstance(question, wire.LiveDrop):
            self._lanes.drop(lane)
            del self._open[lane]
        elif lane is not None and isinstance(question, wire.LiveMore):
            self._open[lane].window += question.tokens
        return []

    def _begin(self, question: wire.LiveBegin) -> list[wire.LiveAnswer]:
        if len(self._open) >= self._places:
            return [wire.LiveFailed(question.number, f"all {self._places} places are taken")]
        try:
            self._open[self._lanes.begin(question.request)] = _Request(question.number)
        except DecodeError as error:
            return [wire.LiveBad(question.number, wire.shortened(error))]
        return []

    def step(self) -> list[wire.LiveAnswer]:
        """Compute a piece of work, and return the progress of each request in it."""
        answers: list[wire.LiveAnswer] = []
        for lane, tokens, finish in self._lanes.step(self._paused()):
            request = self._open[lane]
            request.window -= len(tokens)
            answers.append(wire.LiveTokens(request.number, tokens, finish))
            if finish is not None:
                del self._open[lane]
        return answers
