"""Many streams over one connection. Each has a window, so a slow reader delays only its own stream.

Invariants:

* At most one window of each stream is buffered.
* A frame that breaks the protocol ends the tunnel.
* The end of a tunnel ends every stream, with the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from gpu_tasks.tunnel import frames
from gpu_tasks.tunnel.handshake import SealedLine, TunnelKeyError
from runtime.encoding.codec import DecodeError
from wallet.errors import CodedError

StreamPurpose = frames.RunProgram | frames.ReachPort | frames.CopyIn | frames.CopyOut | frames.TakeSecrets
PIECES_MAX = 256
"""Unread pieces of a stream. Beyond this limit the channels stay separate, but their relative order is lost."""
SERVED_MAX = 2 * frames.STREAMS_MAX
"""Streams being served, including those that the other side has already ended."""
HUNG_UP = "the other side hung up"


class TunnelError(CodedError):
    """A stream or the whole tunnel failed. The text states the reason."""


class RecordLine(Protocol):
    """The connection that carries records."""

    async def send(self, record: bytes) -> None:
        """Send a record. Raise ConnectionError if the connection is closed."""
        ...

    async def receive(self) -> bytes | None:
        """Return the next record, or None at the end."""
        ...


class TunnelStream:
    """One end of a stream, the same on either side."""

    def __init__(self, number: int, send_frame: Callable[[frames.TunnelFrame], Awaitable[None]]) -> None:
        """`send_frame` passes a frame to the tunnel."""
        self.number = number
        self.end: asyncio.Future[frames.StreamEnd] = asyncio.get_running_loop().create_future()
        self.on_resize: Callable[[int, int], Awaitable[None]] | None = None
        self._send_frame = send_frame
        self._waiting_pieces: deque[tuple[int, bytearray]] = deque()
        self._newest_pieces: dict[int, bytearray] = {}
        self._waiting_bytes = 0
        self._uncredited_bytes = 0
        self._window_bytes = frames.WINDOW_BYTES
        self._is_input_over = False
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def read(self) -> tuple[int, bytes] | None:
        """Return the next bytes and their channel, or None at the end."""
        while not self._waiting_pieces:
            if self._is_input_over or self.end.done():
                return None
            self._changed.clear()
            await self._changed.wait()
        channel, next_piece = self._waiting_pieces.popleft()
        if self._newest_pieces.get(channel) is next_piece:
            del self._newest_pieces[channel]
        piece = bytes(next_piece)
        self._waiting_bytes -= len(piece)
        self._uncredited_bytes += len(piece)
        # Credit goes out for half a window at a time, so that small reads do not cost a frame each.
        if self._uncredited_bytes >= frames.WINDOW_BYTES // 2 and not self.end.done():
            count, self._uncredited_bytes = self._uncredited_bytes, 0
            with contextlib.suppress(ConnectionError):
                await self._send_frame(frames.StreamCredit(self.number, count))
        return channel, piece

    async def write(self, data: bytes, channel: int = frames.OUT) -> None:
        """Send bytes as fast as the other side reads them. Raise TunnelError if the stream has ended."""
        for start in range(0, len(data), frames.DATA_BYTES_MAX):
            part = data[start : start + frames.DATA_BYTES_MAX]
            while self._window_bytes < len(part):
                self._has_room.clear()
                await self._has_room.wait()
                # The wait also ends when the stream does, and no credit comes after that.
                self._require_open()
            self._require_open()
            self._window_bytes -= len(part)
            try:
                await self._send_frame(frames.StreamBytes(self.number, channel, part))
            except ConnectionError:
                raise TunnelError(HUNG_UP) from None

    async def end_input(self) -> None:
        """Announce that this side sends no more bytes."""
        with contextlib.suppress(ConnectionError):
            await self._send_frame(frames.StreamInputEnd(self.number))

    async def resize(self, rows: int, columns: int) -> None:
        """Send the window's size to the other side."""
        with contextlib.suppress(ConnectionError):
            await self._send_frame(frames.ResizeTerminal(self.number, rows, columns))

    async def finish(self, code: int = 0, problem: str = "") -> None:
        """End the stream with an exit code or a problem."""
        if self.end.done():
            return
        # Cutting UTF-8 at a byte limit may split a character, so the incomplete rest is ignored.
        problem_part = problem.encode()[: frames.PROBLEM_BYTES_MAX].decode(errors="ignore")
        end = frames.StreamEnd(self.number, code & 0xFFFF_FFFF, problem_part)
        self.ended(end)
        with contextlib.suppress(ConnectionError):
            await self._send_frame(end)

    def _require_open(self) -> None:
        if self.end.done():
            raise TunnelError(self.end.result().problem or "the other side ended it")

    # ----------------------------------------------------------------------------------------- frames of the other side

    def take(self, frame: frames.StreamBytes) -> None:
        """Accept received bytes. Raise TunnelError if they exceed the window.

        Bytes that arrive after the end are ignored, because they were in transit.
        """
        if self.end.done():
            return
        if self._is_input_over:
            raise TunnelError("bytes after the end of the input")
        self._waiting_bytes += len(frame.data)
        # Bytes that were read but not yet credited still count: the sender cannot know about them.
        if self._waiting_bytes + self._uncredited_bytes > frames.WINDOW_BYTES:
            raise TunnelError("more bytes than the window holds")
        if frame.data:
            self._keep(frame.channel, frame.data)
            self._changed.set()

    def _keep(self, channel: int, data: bytes) -> None:
        """Merge small pieces, because each waiting piece costs about a hundred bytes beside its own."""
        newest = self._newest_pieces.get(channel)
        is_last = bool(self._waiting_pieces) and self._waiting_pieces[-1][1] is newest
        if newest is not None and (is_last or len(self._waiting_pieces) >= PIECES_MAX):
            newest += data
            return
        self._newest_pieces[channel] = bytearray(data)
        self._waiting_pieces.append((channel, self._newest_pieces[channel]))

    def credit(self, count: int) -> None:
        """Add the bytes that the other side has read. Raise TunnelError if it claims more than were sent."""
        self._window_bytes += count
        if self._window_bytes > frames.WINDOW_BYTES:
            raise TunnelError("more bytes read than sent")
        self._has_room.set()

    def input_ended(self) -> None:
        """Note that no more bytes come."""
        self._is_input_over = True
        self._changed.set()

    def ended(self, end: frames.StreamEnd) -> None:
        """Note that the stream has ended."""
        if not self.end.done():
            self.end.set_result(end)
        self._is_input_over = True
        self._changed.set()
        self._has_room.set()


ServeStream = Callable[[TunnelStream, StreamPurpose], Awaitable[None]]


class Multiplexer:
    """One end of a tunnel after its handshake. `run` it, and meanwhile open streams or serve incoming ones."""

    def __init__(self, connection: RecordLine, line: SealedLine, serve: ServeStream | None = None) -> None:
        """A side without `serve` opens streams and accepts none."""
        self._connection = connection
        self._sealed_line = line
        self._serve_stream = serve
        self._open_streams: dict[int, TunnelStream] = {}
        self._serving_tasks: set[asyncio.Task[None]] = set()
        self._next_number = 1
        self.ended = asyncio.Event()
        """Set once the tunnel has ended."""
        self._send_lock = asyncio.Lock()

    @property
    def is_idle(self) -> bool:
        """True if no stream is open."""
        return not self._open_streams

    async def open(self, purpose: StreamPurpose) -> TunnelStream:
        """Open a stream. Raise TunnelError if too many are open or the tunnel has ended."""
        if len(self._open_streams) >= frames.STREAMS_MAX:
            raise TunnelError(f"the tunnel has {frames.STREAMS_MAX} open streams already; close one")
        stream = TunnelStream(self._next_number, self._send_frame)
        self._next_number += 1
        self._keep(stream)
        try:
            await self._send_frame(frames.OpenStream(stream.number, purpose))
        except ConnectionError:
            raise TunnelError(HUNG_UP) from None
        return stream

    async def run(self) -> str:
        """Handle frames until the tunnel ends. Return the reason."""
        end_reason = HUNG_UP
        try:
            while (record := await self._connection.receive()) is not None:
                await self._take_frame(frames.FRAME.decode(self._sealed_line.open(record)))
        except (TunnelKeyError, TunnelError) as error:
            end_reason = str(error)
        except DecodeError as error:
            end_reason = f"the other side sent an invalid frame: {error}"
        except ConnectionError:
            pass
        finally:
            self._end_all(end_reason)
        return end_reason

    def _end_all(self, end_reason: str) -> None:
        self.ended.set()
        for stream in list(self._open_streams.values()):
            stream.ended(frames.StreamEnd(stream.number, 0, end_reason))
        for task in self._serving_tasks:
            task.cancel()

    async def settle(self) -> None:
        """Wait for the tasks that serve streams, after the tunnel has ended."""
        if self._serving_tasks:
            await asyncio.wait(self._serving_tasks)

    async def _take_frame(self, frame: frames.TunnelFrame) -> None:
        if isinstance(frame, frames.OpenStream):
            await self._accept_stream(frame)
            return
        stream = self._open_streams.get(frame.stream)
        if stream is None:
            return  # it ended while this frame was in transit
        match frame:
            case frames.StreamBytes():
                stream.take(frame)
            case frames.StreamCredit():
                stream.credit(frame.count)
            case frames.StreamInputEnd():
                stream.input_ended()
            case frames.ResizeTerminal():
                if stream.on_resize is not None:
                    await stream.on_resize(frame.rows, frame.columns)
            case frames.StreamEnd():
                stream.ended(frame)
                self._forget_stream(stream)

    async def _accept_stream(self, frame: frames.OpenStream) -> None:
        if self._serve_stream is None:
            raise TunnelError("only the customer's side opens streams")
        if frame.stream in self._open_streams:
            raise TunnelError("a stream with a used number")
        if len(self._open_streams) >= frames.STREAMS_MAX:
            raise TunnelError(f"more than {frames.STREAMS_MAX} open streams")
        # A stream may end at the other side before its work ends here, so open streams alone do not bound the tasks.
        if len(self._serving_tasks) >= SERVED_MAX:
            await self._send_frame(frames.StreamEnd(frame.stream, 1, "earlier streams are still closing; try again"))
            return
        stream = TunnelStream(frame.stream, self._send_frame)
        self._keep(stream)
        task = asyncio.create_task(self._run_stream(self._serve_stream, stream, frame.wanted))
        self._serving_tasks.add(task)
        task.add_done_callback(self._serving_tasks.discard)

    async def _run_stream(self, serve: ServeStream, stream: TunnelStream, purpose: StreamPurpose) -> None:
        try:
            await serve(stream, purpose)
        finally:
            # A cancelled server must still tell the other side, or that side would keep the stream open.
            await asyncio.shield(stream.finish())

    def _keep(self, stream: TunnelStream) -> None:
        self._open_streams[stream.number] = stream
        stream.end.add_done_callback(lambda _: self._forget_stream(stream))

    def _forget_stream(self, stream: TunnelStream) -> None:
        if self._open_streams.get(stream.number) is stream:  # otherwise it is removed, and a new stream has its number
            del self._open_streams[stream.number]

    async def _send_frame(self, frame: frames.TunnelFrame) -> None:
        async with self._send_lock:  # records are numbered: they must leave in the order of sealing
            await self._connection.send(self._sealed_line.seal(frames.FRAME.encode(frame)))
