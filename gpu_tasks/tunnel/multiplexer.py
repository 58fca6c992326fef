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

    def __init__(self, stream_number: int, send_frame: Callable[[frames.TunnelFrame], Awaitable[None]]) -> None:
        """`send_frame` passes a frame to the tunnel."""
        self.number = stream_number
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
        channel_number, next_piece = self._waiting_pieces.popleft()
        if self._newest_pieces.get(channel_number) is next_piece:
            del self._newest_pieces[channel_number]
        piece_bytes = bytes(next_piece)
        self._waiting_bytes -= len(piece_bytes)
        self._uncredited_bytes += len(piece_bytes)
        # Credit goes out for half a window at a time, so that small reads do not cost a frame each.
        if self._uncredited_bytes >= frames.WINDOW_BYTES // 2 and not self.end.done():
            credit_bytes, self._uncredited_bytes = self._uncredited_bytes, 0
            with contextlib.suppress(ConnectionError):
                await self._send_frame(frames.StreamCredit(self.number, credit_bytes))
        return channel_number, piece_bytes

    async def write(self, data: bytes, channel_number: int = frames.OUT) -> None:
        """Send bytes as fast as the other side reads them. Raise TunnelError if the stream has ended."""
        for part_start in range(0, len(data), frames.DATA_BYTES_MAX):
            data_part = data[part_start : part_start + frames.DATA_BYTES_MAX]
            while self._window_bytes < len(data_part):
                self._has_room.clear()
                await self._has_room.wait()
                # The wait also ends when the stream does, and no credit comes after that.
                self._require_open()
            self._require_open()
            self._window_bytes -= len(data_part)
            try:
                await self._send_frame(frames.StreamBytes(self.number, channel_number, data_part))
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

    async def finish(self, exit_code: int = 0, problem_text: str = "") -> None:
        """End the stream with an exit code or a problem."""
        if self.end.done():
            return
        # Cutting UTF-8 at a byte limit may split a character, so the incomplete rest is ignored.
        problem_part = problem_text.encode()[: frames.PROBLEM_BYTES_MAX].decode(errors="ignore")
        stream_end = frames.StreamEnd(self.number, exit_code & 0xFFFF_FFFF, problem_part)
        self.ended(stream_end)
        with contextlib.suppress(ConnectionError):
            await self._send_frame(stream_end)

    def _require_open(self) -> None:
        if self.end.done():
            raise TunnelError(self.end.result().problem or "the other side ended it")

    # ----------------------------------------------------------------------------------------- frames of the other side

    def take(self, bytes_frame: frames.StreamBytes) -> None:
        """Accept received bytes. Raise TunnelError if they exceed the window.

        Bytes that arrive after the end are ignored, because they were in transit.
        """
        if self.end.done():
            return
        if self._is_input_over:
            raise TunnelError("bytes after the end of the input")
        self._waiting_bytes += len(bytes_frame.data)
        # Bytes that were read but not yet credited still count: the sender cannot know about them.
        if self._waiting_bytes + self._uncredited_bytes > frames.WINDOW_BYTES:
            raise TunnelError("more bytes than the window holds")
        if bytes_frame.data:
            self._keep(bytes_frame.channel, bytes_frame.data)
            self._changed.set()

    def _keep(self, channel_number: int, received_bytes: bytes) -> None:
        """Merge small pieces, because each waiting piece costs about a hundred bytes beside its own."""
        newest_piece = self._newest_pieces.get(channel_number)
        is_last = bool(self._waiting_pieces) and self._waiting_pieces[-1][1] is newest_piece
        if newest_piece is not None and (is_last or len(self._waiting_pieces) >= PIECES_MAX):
            newest_piece += received_bytes
            return
        self._newest_pieces[channel_number] = bytearray(received_bytes)
        self._waiting_pieces.append((channel_number, self._newest_pieces[channel_number]))

    def credit(self, credit_bytes: int) -> None:
        """Add the bytes that the other side has read. Raise TunnelError if it claims more than were sent."""
        self._window_bytes += credit_bytes
        if self._window_bytes > frames.WINDOW_BYTES:
            raise TunnelError("more bytes read than sent")
        self._has_room.set()

    def input_ended(self) -> None:
        """Note that no more bytes come."""
        self._is_input_over = True
        self._changed.set()

    def ended(self, stream_end: frames.StreamEnd) -> None:
        """Note that the stream has ended."""
        if not self.end.done():
            self.end.set_result(stream_end)
        self._is_input_over = True
        self._changed.set()
        self._has_room.set()


ServeStream = Callable[[TunnelStream, StreamPurpose], Awaitable[None]]


class Multiplexer:
    """One end of a tunnel after its handshake. `run` it, and meanwhile open streams or serve incoming ones."""

    def __init__(
        self, connection: RecordLine, sealed_line: SealedLine, serve_stream: ServeStream | None = None
    ) -> None:
        """A side without `serve_stream` opens streams and accepts none."""
        self._connection = connection
        self._sealed_line = sealed_line
        self._serve_stream = serve_stream
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

    async def open(self, stream_purpose: StreamPurpose) -> TunnelStream:
        """Open a stream. Raise TunnelError if too many are open or the tunnel has ended."""
        if len(self._open_streams) >= frames.STREAMS_MAX:
            raise TunnelError(f"the tunnel has {frames.STREAMS_MAX} open streams already; close one")
        tunnel_stream = TunnelStream(self._next_number, self._send_frame)
        self._next_number += 1
        self._keep(tunnel_stream)
        try:
            await self._send_frame(frames.OpenStream(tunnel_stream.number, stream_purpose))
        except ConnectionError:
            raise TunnelError(HUNG_UP) from None
        return tunnel_stream

    async def run(self) -> str:
        """Handle frames until the tunnel ends. Return the reason."""
        end_reason = HUNG_UP
        try:
            while (sealed_record := await self._connection.receive()) is not None:
                await self._take_frame(frames.FRAME.decode(self._sealed_line.open(sealed_record)))
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
        for tunnel_stream in list(self._open_streams.values()):
            tunnel_stream.ended(frames.StreamEnd(tunnel_stream.number, 0, end_reason))
        for serving_task in self._serving_tasks:
            serving_task.cancel()

    async def settle(self) -> None:
        """Wait for the tasks that serve streams, after the tunnel has ended."""
        if self._serving_tasks:
            await asyncio.wait(self._serving_tasks)

    async def _take_frame(self, tunnel_frame: frames.TunnelFrame) -> None:
        if isinstance(tunnel_frame, frames.OpenStream):
            await self._accept_stream(tunnel_frame)
            return
        tunnel_stream = self._open_streams.get(tunnel_frame.stream)
        if tunnel_stream is None:
            return  # it ended while this frame was in transit
        match tunnel_frame:
            case frames.StreamBytes():
                tunnel_stream.take(tunnel_frame)
            case frames.StreamCredit():
                tunnel_stream.credit(tunnel_frame.count)
            case frames.StreamInputEnd():
                tunnel_stream.input_ended()
            case frames.ResizeTerminal():
                if tunnel_stream.on_resize is not None:
                    await tunnel_stream.on_resize(tunnel_frame.rows, tunnel_frame.columns)
            case frames.StreamEnd():
                tunnel_stream.ended(tunnel_frame)
                self._forget_stream(tunnel_stream)

    async def _accept_stream(self, open_frame: frames.OpenStream) -> None:
        if self._serve_stream is None:
            raise TunnelError("only the customer's side opens streams")
        if open_frame.stream in self._open_streams:
            raise TunnelError("a stream with a used number")
        if len(self._open_streams) >= frames.STREAMS_MAX:
            raise TunnelError(f"more than {frames.STREAMS_MAX} open streams")
        # A stream may end at the other side before its work ends here, so open streams alone do not bound the tasks.
        if len(self._serving_tasks) >= SERVED_MAX:
            await self._send_frame(
                frames.StreamEnd(open_frame.stream, 1, "earlier streams are still closing; try again")
            )
            return
        tunnel_stream = TunnelStream(open_frame.stream, self._send_frame)
        self._keep(tunnel_stream)
        serving_task = asyncio.create_task(self._run_stream(self._serve_stream, tunnel_stream, open_frame.wanted))
        self._serving_tasks.add(serving_task)
        serving_task.add_done_callback(self._serving_tasks.discard)

    async def _run_stream(
        self, serve_stream: ServeStream, tunnel_stream: TunnelStream, stream_purpose: StreamPurpose
    ) -> None:
        try:
            await serve_stream(tunnel_stream, stream_purpose)
        finally:
            # A cancelled server must still tell the other side, or that side would keep the stream open.
            await asyncio.shield(tunnel_stream.finish())

    def _keep(self, tunnel_stream: TunnelStream) -> None:
        self._open_streams[tunnel_stream.number] = tunnel_stream
        tunnel_stream.end.add_done_callback(lambda _: self._forget_stream(tunnel_stream))

    def _forget_stream(self, tunnel_stream: TunnelStream) -> None:
        if (
            self._open_streams.get(tunnel_stream.number) is tunnel_stream
        ):  # otherwise it is removed, and a new stream has its number
            del self._open_streams[tunnel_stream.number]

    async def _send_frame(self, tunnel_frame: frames.TunnelFrame) -> None:
        async with self._send_lock:  # records are numbered: they must leave in the order of sealing
            await self._connection.send(self._sealed_line.seal(frames.FRAME.encode(tunnel_frame)))
