"""The node's end of the socket (trio): a new reader gets the opening and then the news; its requests are answered.

Invariant: only this user reaches the socket; extrinsics beyond the quota are refused; questions
wait, and take no more than `QUESTIONS_SHARE` of the core; a request that fails by a mistake of ours is refused and ends
nothing; what is no request ends that connection alone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic, thread_time

import trio

from node.errors import BadInputError
from node.feed import messages as feed
from node.feed.readers import Reader, Readers
from node.p2p.meter import TokenBucket
from node.pool.refusal import PoolRefusalError

CONNECTIONS_MAX = 4
QUESTIONS_SHARE = 0.25
"""Of this node's one core, that answers to questions may take: a list of a full pool takes 10 ms and more."""
QUESTIONS_BURST_SECONDS = 0.25
QUESTION_SECONDS_MIN = QUESTIONS_SHARE / feed.REQUESTS_PER_SECOND
READ_BYTES = 64 * 1024
OWNER_ONLY_MASK = 0o177
INTERNAL_ERROR = -32603
OVER_QUOTA = -32000
_LOG = logging.getLogger(__name__)

Opening = Callable[[], Iterator[feed.ToRpc]]
"""What a new reader is told first. It is asked for at the moment from which on the reader gets what is published."""
AnswerRequest = Callable[[feed.Request], Awaitable[feed.Value]]
"""Answers a request, or raises `PoolRefusalError` with a JSON-RPC code."""


class FeedServer:
    """Serves the feed on a Unix socket that only this user can reach."""

    def __init__(self, path: Path, readers: Readers, opening: Opening, answer: AnswerRequest) -> None:
        self._path = path
        self._readers = readers
        self._opening = opening
        self._answer = answer

    async def listen(self) -> trio.SocketListener:
        """Open the socket; connections wait for `run`."""
        _private_folder(self._path.parent)
        self._path.unlink(missing_ok=True)
        listener = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
        mask = os.umask(OWNER_ONLY_MASK)
        try:
            await listener.bind(str(self._path))
        finally:
            os.umask(mask)
        listener.listen(CONNECTIONS_MAX)
        return trio.SocketListener(listener)

    async def run(self, listener: trio.SocketListener) -> None:
        """Serve until cancelled."""
        try:
            await trio.serve_listeners(self._serve, [listener])
        finally:
            self._path.unlink(missing_ok=True)

    async def _serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            if len(self._readers) >= CONNECTIONS_MAX:
                return
            reader = Reader(stream)
            try:
                await self._converse(reader)
            except* (feed.FeedError, trio.BrokenResourceError, trio.ClosedResourceError) as errors:
                _LOG.warning("the RPC process was cut off: %s", errors.exceptions[0])
            finally:
                self._readers.remove(reader)

    async def _converse(self, reader: Reader) -> None:
        opening = self._opening()  # the state of this very moment: what is published from now on follows it
        self._readers.add(reader)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read, reader, nursery)
            for frame in opening:
                await reader.stream.send_all(feed.pack(frame))
            await reader.write_queued()

    async def _read(self, reader: Reader, nursery: trio.Nursery) -> None:
        decoder = feed.Decoder()
        quota, questions = _Quota(), _Questions()
        in_flight = _UnderWay()
        while data := await reader.stream.receive_some(READ_BYTES):
            for frame in decoder.feed(data):
                if not isinstance(frame, feed.Request):
                    raise feed.FeedError("the RPC process sent what only the node sends")
                _check_items(frame)
                if not feed.submitted(frame):
                    await in_flight.acquire(frame)
                    nursery.start_soon(self._respond_in_turn, reader, frame, in_flight, questions)
                elif quota.allows(frame):
                    await in_flight.acquire(frame)
                    nursery.start_soon(self._respond, reader, frame, in_flight)
                else:
                    why = "try again in a second"
                    reader.queue(feed.pack(feed.Refused(frame.request_id, OVER_QUOTA, "Too many requests", why)))
        nursery.cancel_scope.cancel()

    async def _respond_in_turn(
        self, reader: Reader, request: feed.Request, in_flight: _UnderWay, questions: _Questions
    ) -> None:
        async with questions.turn():
            await self._respond(reader, request, in_flight)

    async def _respond(self, reader: Reader, request: feed.Request, in_flight: _UnderWay) -> None:
        try:
            reply = feed.pack(feed.RequestResult(request.request_id, await self._answer(request)))
        except PoolRefusalError as refusal:
            reply = feed.pack(feed.Refused(request.request_id, refusal.code, refusal.text, refusal.data))
        except feed.FeedError as error:  # a full pool is longer than a frame: that is the client's to know, no fault
            reply = feed.pack(feed.Refused(request.request_id, INTERNAL_ERROR, "Response too large", str(error)))
        except Exception:  # noqa: BLE001  # a fault of our own, whatever it is, ends here
            _LOG.exception("a request of the RPC process failed: %s", type(request).__name__)
            text = "the node's log says more"
            reply = feed.pack(feed.Refused(request.request_id, INTERNAL_ERROR, "Internal error", text))
        finally:
            in_flight.release(request)
        reader.queue(reply)


def _private_folder(folder: Path) -> None:
    """A folder that is this user's alone, since whoever can replace the socket can play the node."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.geteuid():
        raise BadInputError(f"{folder} belongs to another user: use a shorter --base-path, or remove that folder")


class _Questions:
    """One after the other, when the time for questions is not used up."""

    def __init__(self) -> None:
        self._account = TokenBucket(QUESTIONS_SHARE, QUESTIONS_BURST_SECONDS, monotonic())
        self._line = trio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait; what is done inside is counted by the time that it takes of the core."""
        async with self._line:
            await trio.sleep(self._account.wait(monotonic()))
            begun = thread_time()
            try:
                yield
            finally:
                self._account.spend(max(thread_time() - begun, QUESTION_SECONDS_MIN), monotonic())


class _Quota:
    """A bucket of tokens for extrinsics, that holds a second's worth."""

    def __init__(self) -> None:
        self._last = monotonic()
        self._submits = float(feed.SUBMIT_PER_SECOND)

    def allows(self, request: feed.Request) -> bool:
        now = monotonic()
        passed = now - self._last
        self._last = now
        self._submits = min(feed.SUBMIT_PER_SECOND, self._submits + passed * feed.SUBMIT_PER_SECOND)
        # All of them or none: the next second's are used up in advance, as long as there are any now.
        if self._submits < 0:
            return False
        self._submits -= len(feed.submitted(request))
        return True


class _UnderWay:
    """The requests that are being answered: bounded in number, and their extrinsics in bytes."""

    def __init__(self) -> None:
        self._count = 0
        self._bytes = 0
        self._waiting = trio.lowlevel.ParkingLot()

    async def acquire(self, request: feed.Request) -> None:
        """Wait for room; meanwhile nothing more is read, and the RPC process waits too."""
        while self._count >= feed.REQUESTS_IN_FLIGHT or self._bytes >= feed.SUBMIT_BYTES_IN_FLIGHT:
            await self._waiting.park()
        self._count += 1
        self._bytes += _size(request)

    def release(self, request: feed.Request) -> None:
        """It is answered."""
        self._count -= 1
        self._bytes -= _size(request)
        self._waiting.unpark_all()


def _size(request: feed.Request) -> int:
    return sum(map(len, feed.submitted(request)))


def _check_items(request: feed.Request) -> None:
    if not isinstance(request, feed.SubmitMany):
        return
    if len(request.extrinsics) > feed.SUBMIT_MANY_MAX:
        raise feed.FeedError(f"{len(request.extrinsics):,} extrinsics in a frame, at most {feed.SUBMIT_MANY_MAX}")
    if not all(type(extrinsic) is bytes for extrinsic in request.extrinsics):
        raise feed.FeedError("an extrinsic is bytes")
