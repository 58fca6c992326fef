"""The RPC process's end of the feed (asyncio): frames in order, and requests that wait for their answers.

Invariant: `frames()` yields the node's frames in order, except `RequestResult` and `Refused`, which go to their
requests. If the link breaks, every waiting request and `frames()` raise `ConnectionError`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Generic, TypeVar, cast

from node.feed import messages as feed

READ_BYTES = 256 * 1024
PENDING_SECONDS = 0.25  # between two reads of the whole pool: megabytes, which cost both processes tens of milliseconds
SUBMIT_BYTES = 256 * 1024  # of extrinsics in one frame, unless a single one is longer
QUEUED_FRAMES = 4_096  # beyond this the reader waits, and the socket slows down the node's feed


Turn = Callable[[], AbstractAsyncContextManager[None]]
"""A context for each question; it may wait before it opens."""
SubmissionTurn = Callable[[int, int], AbstractAsyncContextManager[None]]
"""A context for (count, bytes) of extrinsics. RequestRefusedError if too many wait already."""


# One question to the node for all callers who ask it at about the same time.
# Invariant: a caller gets an answer to a question that was sent after its call. One question is under way at a time,
# and questions start at least a pause apart, for any number of callers.
T = TypeVar("T")


class SharedAnswer(Generic[T]):
    """The shared answers of `ask`."""

    def __init__(self, ask_node: Callable[[], Awaitable[T]], seconds: float) -> None:
        """Create it, with at most one question in `seconds`."""
        self._ask_node = ask_node
        self._pause_seconds = seconds
        self._last_at = float("-inf")
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """Return the answer to the next question. Raise the exceptions of `ask`."""
        if self._next is None or self._next.done():
            self._next = asyncio.create_task(self._answer())
            self._next.add_done_callback(_forget)
        return await asyncio.shield(self._next)  # a caller that goes away cancels the wait of no other

    async def _answer(self) -> T:
        loop = asyncio.get_running_loop()
        async with self._turn:
            await asyncio.sleep(self._last_at + self._pause_seconds - loop.time())
            self._last_at = loop.time()
            self._next = None  # later callers want to see later changes
            return await self._ask_node()


def _forget(ended_task: asyncio.Task[T]) -> None:
    """Retrieve the exception: there may be no caller left to take it, and asyncio logs unretrieved ones."""
    if not ended_task.cancelled():
        ended_task.exception()


class RequestRefusedError(Exception):
    """The node refused a request: a JSON-RPC `code`, a sentence, and further data."""

    def __init__(self, code: int, text: str, data: str) -> None:
        super().__init__(f"{text}: {data}" if data else text)
        self.code = code
        self.text = text
        self.data = data

    @property
    def parts(self) -> tuple[int, str, str]:
        """The constructor's arguments."""
        return self.code, self.text, self.data


class FeedClient:
    """One link to the node. Create it with `connect`, read `frames()` in one task, and send requests from any task."""

    def __init__(self, stream_reader: asyncio.StreamReader, stream_writer: asyncio.StreamWriter) -> None:
        self._stream_reader = stream_reader
        self._stream_writer = stream_writer
        self._waiting_by_id: dict[int, asyncio.Future[feed.RequestResult | feed.Refused]] = {}
        self._request_ids = itertools.count(1)
        self._turn: Turn = nullcontext
        self._submission: SubmissionTurn = _at_once
        self._frames: asyncio.Queue[feed.ToRpc | None] = asyncio.Queue(QUEUED_FRAMES)
        self._pending = SharedAnswer(self._ask_pending, PENDING_SECONDS)
        self._task = asyncio.create_task(self._read_frames())

    @classmethod
    async def connect(cls, socket_path: Path) -> FeedClient:
        """Connect to the node's socket. Raise `OSError` if there is none."""
        return cls(*await asyncio.open_unix_connection(str(socket_path)))

    async def frames(self) -> AsyncIterator[feed.ToRpc]:
        """Yield every frame except answers, in order. Raise `ConnectionError` at the end of the link."""
        while (frame := await self._frames.get()) is not None:
            yield frame
        raise ConnectionError("the node closed the feed")

    async def submit(self, extrinsic: bytes) -> bytes:
        """Submit an extrinsic to the node's pool, and return its hash; its statuses come among the frames."""
        async with self._submission(1, len(extrinsic)):
            return cast("bytes", await self._ask_node(feed.Submit(next(self._request_ids), extrinsic)))

    async def submit_many(self, extrinsics: Sequence[bytes]) -> list[bytes | RequestRefusedError]:
        """Submit extrinsics to the node's pool, in order; return for each its hash or its refusal.

        If the node has no time for a part, all later parts are refused too, because they must enter after it.
        """
        outcomes: list[bytes | RequestRefusedError] = []
        for extrinsics_part in _extrinsics_parts(extrinsics):
            try:
                async with self._submission(len(extrinsics_part), sum(map(len, extrinsics_part))):
                    node_answer = await self._ask_node(feed.SubmitMany(next(self._request_ids), extrinsics_part))
            except RequestRefusedError as error:
                # Some of the earlier ones are in the pool. A caller that got a refusal for all would submit and pay
                # twice.
                return outcomes + [RequestRefusedError(*error.parts)] * (len(extrinsics) - len(outcomes))
            outcomes += map(_submit_outcome, cast("list[bytes | Sequence[object]]", node_answer))
        return outcomes

    async def prove(self, block_id: bytes, keys: list[bytes]) -> list[bytes]:
        """Return the trie nodes that prove `keys` in the state after that block."""
        return cast("list[bytes]", await self._question(feed.Prove(next(self._request_ids), block_id, keys)))

    async def pending(self) -> list[bytes]:
        """Return the extrinsics in the pool, ready ones first."""
        return await self._pending.get()

    async def next_nonce(self, account: bytes, nonce: int) -> int:
        """Return the first nonce from `nonce` on that the account uses neither in the pool nor above the best block."""
        return cast("int", await self._question(feed.NextNonce(next(self._request_ids), account, nonce)))

    async def peers(self) -> list[dict[str, feed.Value]]:
        """Return the peers as `system_peers` shows them."""
        return cast("list[dict[str, feed.Value]]", await self._question(feed.ListPeers(next(self._request_ids))))

    async def block_at(self, block_id: bytes) -> tuple[bytes, list[bytes]] | None:
        """Return the sealed header and the extrinsics of a block that the node has."""
        value = await self._question(feed.BlockAt(next(self._request_ids), block_id))
        return None if value is None else cast("tuple[bytes, list[bytes]]", tuple(cast("list[feed.Value]", value)))

    async def id_at(self, height: int) -> bytes | None:
        """Return the id of the final block at `height`."""
        return cast("bytes | None", await self._question(feed.IdAt(next(self._request_ids), height)))

    async def certificate_at(self, height: int) -> tuple[bytes, bytes, bytes] | None:
        """Return block id, certificate and sealed header of the lowest certified block at or above `height`."""
        value = await self._question(feed.CertificateAt(next(self._request_ids), height))
        return None if value is None else cast("tuple[bytes, bytes, bytes]", tuple(cast("list[feed.Value]", value)))

    async def handoffs(self, epoch: int, count: int) -> list[bytes]:
        """Return the encoded handoffs of ended epochs from `epoch` on, at most `HANDOFFS_MAX`."""
        return cast("list[bytes]", await self._question(feed.HandoffsFrom(next(self._request_ids), epoch, count)))

    async def inspect(self, topic: str) -> feed.Value:
        """Return figures of the node: "consensus", "polls", "pool", "network" or "offences"."""
        return await self._question(feed.Inspect(next(self._request_ids), topic))

    async def rotate_keys(self, owner: bytes) -> tuple[bytes, bytes]:
        """Return new session and VRF keys of the node, and the proof that the account may register them, in SCALE."""
        answer = await self._question(feed.RotateKeys(next(self._request_ids), owner))
        return cast("tuple[bytes, bytes]", tuple(cast("list[feed.Value]", answer)))

    async def submit_attestation(self, attestation: bytes) -> bytes:
        """Submit a signed attestation to the node, and return its id."""
        return cast("bytes", await self._question(feed.SubmitAttestation(next(self._request_ids), attestation)))

    async def close(self) -> None:
        """End the link."""
        self._task.cancel()
        self._stream_writer.close()
        await asyncio.gather(self._task, self._stream_writer.wait_closed(), return_exceptions=True)

    async def _ask_pending(self) -> list[bytes]:
        return cast("list[bytes]", await self._ask_node(feed.Pending(next(self._request_ids))))

    def ask_in_turn(self, turn: Turn, submission: SubmissionTurn) -> None:
        """Use `turn()` around each later question, and `submission(…)` around extrinsics."""
        self._turn, self._submission = turn, submission

    async def _question(self, request: feed.Request) -> feed.Value:
        async with self._turn():
            return await self._ask_node(request)

    async def _ask_node(self, request: feed.Request) -> feed.Value:
        if self._task.done():
            raise ConnectionError("the node closed the feed")
        if len(self._waiting_by_id) >= feed.REQUESTS_IN_FLIGHT:
            raise RequestRefusedError(-32000, "Too many requests to the node are under way", "")
        future: asyncio.Future[feed.RequestResult | feed.Refused] = asyncio.get_running_loop().create_future()
        self._waiting_by_id[request.request_id] = future
        try:
            self._stream_writer.write(feed.pack(request))
            await self._stream_writer.drain()
            answer = await future
        finally:
            self._waiting_by_id.pop(request.request_id, None)
        # Raised here and stored nowhere: an exception in the future would hold this frame, and the frame the future, so
        # that a refused request would stay in memory until the garbage collector runs.
        if isinstance(answer, feed.Refused):
            raise RequestRefusedError(answer.code, answer.text, answer.data)
        return answer.value

    async def _read_frames(self) -> None:
        frame_decoder = feed.Decoder()
        try:
            while data := await self._stream_reader.read(READ_BYTES):
                for frame in frame_decoder.feed(data):
                    await self._take_frame(frame)
        finally:
            for waiting_future in self._waiting_by_id.values():
                if not waiting_future.done():
                    waiting_future.set_exception(ConnectionError("the node closed the feed"))
            # The end must arrive even at a reader that is behind: it loses a frame that it can no longer use.
            if self._frames.full():
                self._frames.get_nowait()
            self._frames.put_nowait(None)

    async def _take_frame(self, frame: feed.Frame) -> None:
        if isinstance(frame, feed.RequestResult | feed.Refused):
            waiting_future = self._waiting_by_id.get(frame.request_id)
            if waiting_future is None or waiting_future.done():
                return
            waiting_future.set_result(frame)
        else:
            await self._frames.put(cast("feed.ToRpc", frame))


def _at_once(_count: int, _size: int) -> AbstractAsyncContextManager[None]:
    return nullcontext()


def _extrinsics_parts(extrinsics: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Yield parts that fit a frame and do not delay other requests for long, at least one extrinsic each."""
    extrinsics_part: list[bytes] = []
    part_bytes = 0
    for extrinsic in extrinsics:
        if extrinsics_part and (
            len(extrinsics_part) >= feed.SUBMIT_MANY_MAX or part_bytes + len(extrinsic) > SUBMIT_BYTES
        ):
            yield extrinsics_part
            extrinsics_part, part_bytes = [], 0
        extrinsics_part.append(extrinsic)
        part_bytes += len(extrinsic)
    if extrinsics_part:
        yield extrinsics_part


def _submit_outcome(outcome_value: bytes | Sequence[object]) -> bytes | RequestRefusedError:
    if isinstance(outcome_value, bytes):
        return outcome_value
    error_code, error_text, error_data = outcome_value
    return RequestRefusedError(cast("int", error_code), str(error_text), str(error_data))
