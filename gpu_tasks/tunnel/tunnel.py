"""A tunnel: records that carry yamux, whose streams carry an ask and then messages.

Invariants:

* At most one window of each stream is buffered, so a slow reader delays only its own stream.
* Bytes that break yamux or a limit end the tunnel. An invalid message ends its stream.
* The last message of a stream always has room in its window, so a stream ends at once, with its reason.
* The end of a tunnel ends every stream, with the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from gpu_tasks.tunnel import frames
from gpu_tasks.tunnel.handshake import SealedLine, TunnelKeyError
from runtime.encoding.codec import Codec, DecodeError
from streams import yamux
from wallet.errors import CodedError

LIMITS = yamux.YamuxLimits(
    streams=frames.STREAMS_MAX,
    refused_streams=0,
    window_bytes=frames.WINDOW_BYTES,
    send_window_bytes=frames.WINDOW_BYTES,
    update_bytes=5 * frames.DATA_BYTES_MAX,
    frame_data_bytes=2 * (frames.LENGTH_BYTES + frames.MESSAGE_BYTES_MAX),
    outgoing_bytes=16 * 1024,
)
SERVED_MAX = 2 * frames.STREAMS_MAX
"""Streams being served, including those that the other side has already ended."""
SMALL_BYTES = 1_024
"""The reader of a smaller message lets other tasks run first, because a window has room for 37,000 messages."""
HUNG_UP = "the other side hung up"
DROPPED = "the other side dropped the stream; try again"


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

    def __init__(self, number: int, tunnel: Tunnel) -> None:
        """`number` is an open stream of the tunnel's session."""
        self.number = number
        self.end: asyncio.Future[frames.StreamEnd] = asyncio.get_running_loop().create_future()
        self.on_resize: Callable[[int, int], Awaitable[None]] | None = None
        self._tunnel = tunnel
        self._received_bytes = bytearray()
        self._last_data = b""
        self._is_input_over = False
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()

    async def read(self) -> tuple[int, bytes] | None:
        """Return the next bytes and their channel, or None at the end."""
        while not self._is_input_over:
            message: frames.StreamMessage | None = await self.next_message(frames.MESSAGE)
            match message:
                case frames.StreamBytes(channel, data):
                    if data:
                        return channel, data
                case frames.ResizeTerminal(rows, columns):
                    if self.on_resize is not None:
                        await self.on_resize(rows, columns)
                case frames.InputEnd():
                    self._is_input_over = True
                case frames.StreamEnd() | None:
                    self._is_input_over = True
                    self.drop(message or self.end.result())
        return None

    async def next_message(self, form: Codec[Any]) -> Any:
        """Return the next message, or None if no valid one comes any more. A cancelled caller loses no message."""
        if self._tunnel.session.has_outgoing:  # not in a task of its own, which costs more CPU time
            await self._tunnel.send_answers()
        try:
            while (size := self._next_size()) > len(self._received_bytes):
                if self.end.done():
                    return None
                self._changed.clear()
                await self._changed.wait()
            if size < SMALL_BYTES:
                await asyncio.sleep(0)
            message = form.decode(bytes(memoryview(self._received_bytes)[frames.LENGTH_BYTES : size]))
        except DecodeError as error:
            self._received_bytes.clear()
            self.drop(frames.StreamEnd(1, f"the other side sent an invalid message: {error}"))
            return None
        del self._received_bytes[:size]
        self._tunnel.session.consume(self.number, size)
        return message

    def _next_size(self) -> int:
        """Return the size of the next message with its length. Raise DecodeError if it is too large."""
        message_bytes = int.from_bytes(self._received_bytes[: frames.LENGTH_BYTES], "little")
        if message_bytes > frames.MESSAGE_BYTES_MAX:
            raise DecodeError(f"a message of {message_bytes} bytes")
        return frames.LENGTH_BYTES + message_bytes

    async def write(self, data: bytes, channel: int = frames.OUT) -> None:
        """Send bytes as fast as the other side reads them. Raise TunnelError if the stream has ended."""
        size = frames.DATA_BYTES_MAX
        for start in range(0, len(data), 2 * size):
            parts = [data[at : at + size] for at in range(start, min(start + 2 * size, len(data)), size)]
            messages = [_framed(frames.MESSAGE, frames.StreamBytes(channel, part)) for part in parts]
            await self.send(b"".join(messages))

    async def end_input(self) -> None:
        """Announce that this side sends no more bytes."""
        with contextlib.suppress(TunnelError):
            await self.send(_framed(frames.MESSAGE, frames.InputEnd()))

    async def resize(self, rows: int, columns: int) -> None:
        """Send the window's size to the other side."""
        with contextlib.suppress(TunnelError):
            await self.send(_framed(frames.MESSAGE, frames.ResizeTerminal(rows, columns)))

    async def send(self, messages: bytes) -> None:
        """Send messages once the window has room for them and the end. Raise TunnelError if the stream has ended."""
        while not self.end.done():
            if await self._tunnel.send(self.number, messages, spare_bytes=frames.END_BYTES_MAX):
                return
            self._has_room.clear()
            await self._has_room.wait()
        raise TunnelError(self.end.result().problem or "the other side ended it")

    async def finish(self, code: int = 0, problem: str = "") -> None:
        """End the stream with an exit code or a problem."""
        if self.end.done():
            return
        # Cutting UTF-8 at a byte limit may split a character, so the incomplete rest is ignored.
        problem_part = problem.encode()[: frames.PROBLEM_BYTES_MAX].decode(errors="ignore")
        end = frames.StreamEnd(code & 0xFFFF_FFFF, problem_part)
        self.ended(end)
        with contextlib.suppress(TunnelError):
            await self._tunnel.send(self.number, _framed(frames.MESSAGE, end), is_last=True)

    def drop(self, end: frames.StreamEnd) -> None:
        """End the stream on both sides, without a message to the other."""
        self.ended(end)
        self._tunnel.session.reset(self.number)
        self._tunnel.wake()

    def on_event(self, event: yamux.StreamData | yamux.WindowOpened | yamux.StreamClosed) -> None:
        """Note that data arrived, that the other side accepts more, or that it closed the stream."""
        match event:
            case yamux.StreamData(_, data):
                self._received_bytes += data
                self._last_data = data
                self._changed.set()
            case yamux.WindowOpened():
                self._has_room.set()
            case yamux.StreamClosed():
                end = None
                with contextlib.suppress(DecodeError):  # the end message is a data frame of its own
                    end = frames.MESSAGE.decode(self._last_data[frames.LENGTH_BYTES :])
                self.ended(end if isinstance(end, frames.StreamEnd) else frames.StreamEnd(1, DROPPED))

    def ended(self, end: frames.StreamEnd) -> None:
        """Note that the stream has ended."""
        if not self.end.done():
            self.end.set_result(end)
        self._changed.set()
        self._has_room.set()


def _framed(form: Codec[Any], message: Any) -> bytes:
    encoded = form.encode(message)
    return len(encoded).to_bytes(frames.LENGTH_BYTES, "little") + encoded


ServeStream = Callable[[TunnelStream, frames.TunnelAsk], Awaitable[None]]


class Tunnel:
    """One end of a tunnel after its handshake. `run` it, and meanwhile open streams or serve incoming ones."""

    def __init__(self, connection: RecordLine, line: SealedLine, serve: ServeStream | None = None) -> None:
        """A side without `serve`, the customer's, opens streams and accepts none."""
        self.session = yamux.YamuxSession(initiator=serve is None, limits=LIMITS)
        self.ended = asyncio.Event()
        """Set once the tunnel has ended."""
        self._connection = connection
        self._sealed_line = line
        self._serve_stream = serve
        self._open_streams: dict[int, TunnelStream] = {}
        self._serving_tasks: set[asyncio.Task[None]] = set()
        self._send_lock = asyncio.Lock()
        self._answering: asyncio.Task[None] | None = None

    async def open(self, ask: frames.TunnelAsk) -> TunnelStream:
        """Open a stream. Raise TunnelError if too many are open, the ask is too large or the tunnel has ended."""
        framed_ask = _framed(frames.ASK, ask)
        if len(framed_ask) > frames.LENGTH_BYTES + frames.MESSAGE_BYTES_MAX:
            raise TunnelError(f"a request has at most {frames.MESSAGE_BYTES_MAX:,} bytes; shorten its command")
        if len(self._open_streams) >= frames.STREAMS_MAX:
            raise TunnelError(f"the tunnel has {frames.STREAMS_MAX} open streams already; close one")
        if self.ended.is_set():
            raise TunnelError(HUNG_UP)
        stream = self._kept(self.session.open())
        await stream.send(framed_ask)
        return stream

    async def run(self) -> str:
        """Handle records until the tunnel ends. Return the reason."""
        end_reason = HUNG_UP
        try:
            while (record := await self._connection.receive()) is not None:
                for event in self.session.feed(self._sealed_line.open(record)):
                    self._on_event(event)
                self.wake()
        except (TunnelKeyError, TunnelError, yamux.YamuxError) as error:
            end_reason = str(error)
        except ConnectionError:
            pass
        finally:
            self.ended.set()
            for stream in list(self._open_streams.values()):
                stream.ended(frames.StreamEnd(0, end_reason))
            for task in (*self._serving_tasks, *filter(None, [self._answering])):
                task.cancel()
        return end_reason

    async def settle(self) -> None:
        """Wait for the tasks that serve streams, after the tunnel has ended."""
        if self._serving_tasks:
            await asyncio.wait(self._serving_tasks)

    def _on_event(self, event: yamux.YamuxEvent) -> None:
        if isinstance(event, yamux.PeerLeft):
            raise TunnelError(HUNG_UP)
        if isinstance(event, yamux.StreamOpened):
            self._accept_stream(event.stream)
        elif (stream := self._open_streams.get(event.stream)) is not None:  # otherwise it has ended here
            stream.on_event(event)

    def _accept_stream(self, number: int) -> None:
        if self._serve_stream is None:
            raise TunnelError("only the customer's side opens streams")
        # A stream may end at the other side before its work ends here, so open streams alone do not bound the tasks.
        if len(self._serving_tasks) >= SERVED_MAX:
            self.session.reset(number)
            return
        task = asyncio.create_task(self._run_stream(self._serve_stream, self._kept(number)))
        self._serving_tasks.add(task)
        task.add_done_callback(self._serving_tasks.discard)

    async def _run_stream(self, serve: ServeStream, stream: TunnelStream) -> None:
        try:
            if (ask := await stream.next_message(frames.ASK)) is not None:
                await serve(stream, ask)
        finally:
            # A cancelled server must still tell the other side, or that side would keep the stream open.
            await asyncio.shield(stream.finish())

    def _kept(self, number: int) -> TunnelStream:
        def forget(_: object) -> None:
            if self._open_streams.get(number) is stream:  # otherwise a new stream has its number
                del self._open_streams[number]

        stream = self._open_streams[number] = TunnelStream(number, self)
        stream.end.add_done_callback(forget)
        return stream

    async def send(self, number: int, messages: bytes, *, spare_bytes: int = 0, is_last: bool = False) -> bool:
        """Send messages whole, in one frame. Return False if the window has no room for them and `spare_bytes`.

        Raise TunnelError if the stream is closed or the connection ends.
        """
        async with self._send_lock:  # records are numbered: they must leave in the order of sealing
            try:
                # Before the messages are charged to the window, so that a cancelled sender leaves none of them unsent.
                if answers := self.session.take_outgoing():
                    await self._connection.send(self._sealed_line.seal(answers))
                if self.session.send_window(number) < len(messages) + spare_bytes:
                    return False
                content = self.session.data_frame(number, memoryview(messages))[0]
                if is_last:
                    self.session.close(number)
                    content += self.session.take_outgoing()
                await self._connection.send(self._sealed_line.seal(content))
            except (ConnectionError, yamux.YamuxError):
                raise TunnelError(HUNG_UP) from None
        return True

    def wake(self) -> None:
        """Send waiting control frames in a task: two ends that both send before they read would wait for ever."""
        if self.session.has_outgoing and (self._answering is None or self._answering.done()):
            self._answering = asyncio.create_task(self.send_answers())

    async def send_answers(self) -> None:
        """Send the control frames that wait."""
        with contextlib.suppress(ConnectionError):
            while self.session.has_outgoing:
                async with self._send_lock:
                    if content := self.session.take_outgoing():
                        await self._connection.send(self._sealed_line.seal(content))
