"""The node's end of the socket (trio): opening and news for each reader, and answers to its requests.

Invariants:

* Only this user reaches the socket.
* Extrinsics beyond the quota are refused. Questions wait, and take at most `QUESTIONS_SHARE` of the core.
* A request that fails by a fault of the node is refused, and the connection lives on. Bytes that are no request end
  that connection only.
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
"""The share of this node's one core for answers to questions. A list of a full pool takes 10 ms and more."""
QUESTIONS_BURST_SECONDS = 0.25
QUESTION_SECONDS_MIN = QUESTIONS_SHARE / feed.REQUESTS_PER_SECOND
READ_BYTES = 64 * 1024
OWNER_ONLY_MASK = 0o177
INTERNAL_ERROR = -32603
OVER_QUOTA = -32000
_LOG = logging.getLogger(__name__)

Opening = Callable[[], Iterator[feed.ToRpc]]
"""The first frames for a new reader. The call must be at the moment from which the reader gets published frames."""
AnswerRequest = Callable[[feed.Request], Awaitable[feed.Value]]
"""A function that answers a request, or raises `PoolRefusalError` with a JSON-RPC code."""


class FeedServer:
    """The feed on a Unix socket that only this user can reach."""

    def __init__(
        self, socket_path: Path, readers: Readers, opening_frames: Opening, answer_request: AnswerRequest
    ) -> None:
        self._socket_path = socket_path
        self._readers = readers
        self._opening_frames = opening_frames
        self._answer_request = answer_request

    async def listen(self) -> trio.SocketListener:
        """Open the socket; connections wait for `run`."""
        _private_folder(self._socket_path.parent)
        # A socket file of an earlier run would make `bind` fail.
        self._socket_path.unlink(missing_ok=True)
        listener = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
        earlier_mask = os.umask(OWNER_ONLY_MASK)
        try:
            await listener.bind(str(self._socket_path))
        finally:
            os.umask(earlier_mask)
        listener.listen(CONNECTIONS_MAX)
        return trio.SocketListener(listener)

    async def run(self, listener: trio.SocketListener) -> None:
        """Serve until cancelled."""
        try:
            await trio.serve_listeners(self._serve_reader, [listener])
        finally:
            self._socket_path.unlink(missing_ok=True)

    async def _serve_reader(self, stream: trio.SocketStream) -> None:
        async with stream:
            if len(self._readers) >= CONNECTIONS_MAX:
                return
            reader = Reader(stream)
            try:
                await self._converse(reader)
            except* (feed.FeedError, trio.BrokenResourceError, trio.ClosedResourceError) as feed_errors:
                _LOG.warning("the RPC process was cut off: %s", feed_errors.exceptions[0])
            finally:
                self._readers.remove(reader)

    async def _converse(self, reader: Reader) -> None:
        opening_frames = self._opening_frames()  # the state of this moment: frames that are published later build on it
        self._readers.add(reader)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read_requests, reader, nursery)
            for frame in opening_frames:
                await reader.stream.send_all(feed.pack(frame))
            await reader.write_queued()

    async def _read_requests(self, reader: Reader, nursery: trio.Nursery) -> None:
        frame_decoder = feed.Decoder()
        request_quota, questions = _Quota(), _Questions()
        in_flight = _UnderWay()
        while data := await reader.stream.receive_some(READ_BYTES):
            for request_frame in frame_decoder.feed(data):
                if not isinstance(request_frame, feed.Request):
                    raise feed.FeedError("a frame of the RPC process that only the node may send")
                _check_items(request_frame)
                if not feed.submitted(request_frame):
                    await in_flight.acquire(request_frame)
                    nursery.start_soon(self._respond_in_turn, reader, request_frame, in_flight, questions)
                elif request_quota.allows(request_frame):
                    await in_flight.acquire(request_frame)
                    nursery.start_soon(self._respond, reader, request_frame, in_flight)
                else:
                    refusal_detail = "try again in a second"
                    reader.queue(
                        feed.pack(
                            feed.Refused(request_frame.request_id, OVER_QUOTA, "Too many requests", refusal_detail)
                        )
                    )
        nursery.cancel_scope.cancel()

    async def _respond_in_turn(
        self, reader: Reader, request: feed.Request, in_flight: _UnderWay, questions: _Questions
    ) -> None:
        async with questions.turn():
            await self._respond(reader, request, in_flight)

    async def _respond(self, reader: Reader, request: feed.Request, in_flight: _UnderWay) -> None:
        try:
            packed_reply = feed.pack(feed.RequestResult(request.request_id, await self._answer_request(request)))
        except PoolRefusalError as refusal:
            packed_reply = feed.pack(feed.Refused(request.request_id, refusal.code, refusal.text, refusal.data))
        except feed.FeedError as error:  # a full pool is longer than a frame: an error for the client, not a fault
            packed_reply = feed.pack(feed.Refused(request.request_id, INTERNAL_ERROR, "Response too large", str(error)))
        except Exception:  # noqa: BLE001  # any fault of our own ends here
            _LOG.exception("a request of the RPC process failed: %s", type(request).__name__)
            error_text = "see the node's log"
            packed_reply = feed.pack(feed.Refused(request.request_id, INTERNAL_ERROR, "Internal error", error_text))
        finally:
            in_flight.release(request)
        reader.queue(packed_reply)


def _private_folder(socket_folder: Path) -> None:
    """Create a folder of this user alone: a user who can replace the socket can impersonate the node."""
    socket_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if socket_folder.stat().st_uid != os.geteuid():
        raise BadInputError(
            f"{socket_folder} belongs to another user. Use a shorter --base-path, or remove that folder"
        )


class _Questions:
    """Questions in sequence, within their share of the core."""

    def __init__(self) -> None:
        self._time_bucket = TokenBucket(QUESTIONS_SHARE, QUESTIONS_BURST_SECONDS, monotonic())
        self._question_lock = trio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn; the CPU time inside counts against the share."""
        async with self._question_lock:
            await trio.sleep(self._time_bucket.wait(monotonic()))
            begun_at = thread_time()
            try:
                yield
            finally:
                self._time_bucket.spend(max(thread_time() - begun_at, QUESTION_SECONDS_MIN), monotonic())


class _Quota:
    """A token bucket for extrinsics, with one second's worth."""

    def __init__(self) -> None:
        self._refilled_at = monotonic()
        self._remaining_submits = float(feed.SUBMIT_PER_SECOND)

    def allows(self, request: feed.Request) -> bool:
        now = monotonic()
        passed_seconds = now - self._refilled_at
        self._refilled_at = now
        self._remaining_submits = min(
            feed.SUBMIT_PER_SECOND, self._remaining_submits + passed_seconds * feed.SUBMIT_PER_SECOND
        )
        # A request is accepted whole: it may use the next second's tokens in advance while any token is left.
        if self._remaining_submits < 0:
            return False
        self._remaining_submits -= len(feed.submitted(request))
        return True


class _UnderWay:
    """The requests that wait for an answer: bounded in number, and their extrinsics in bytes."""

    def __init__(self) -> None:
        self._request_count = 0
        self._submit_bytes = 0
        self._waiting_lot = trio.lowlevel.ParkingLot()

    async def acquire(self, request: feed.Request) -> None:
        """Wait for room. Meanwhile the node reads no further request, so the RPC process waits too."""
        while self._request_count >= feed.REQUESTS_IN_FLIGHT or self._submit_bytes >= feed.SUBMIT_BYTES_IN_FLIGHT:
            await self._waiting_lot.park()
        self._request_count += 1
        self._submit_bytes += _request_bytes(request)

    def release(self, request: feed.Request) -> None:
        """Free the room of an answered request."""
        self._request_count -= 1
        self._submit_bytes -= _request_bytes(request)
        self._waiting_lot.unpark_all()


def _request_bytes(request: feed.Request) -> int:
    return sum(map(len, feed.submitted(request)))


def _check_items(request: feed.Request) -> None:
    if not isinstance(request, feed.SubmitMany):
        return
    if len(request.extrinsics) > feed.SUBMIT_MANY_MAX:
        raise feed.FeedError(f"{len(request.extrinsics):,} extrinsics in a frame, at most {feed.SUBMIT_MANY_MAX}")
    if not all(type(extrinsic) is bytes for extrinsic in request.extrinsics):
        raise feed.FeedError("an extrinsic is bytes")
