"""The connections of a server: their number, their idle time, and the pace of reading them.

A connection costs a descriptor and some memory before it asks for anything, and bytes cost time to parse before any
request is known. Invariants: `who_yields` decides which connections stay. A connection without a request ends after
`idle_seconds`, however slowly it sends one. It sends `HEAD_BYTES_MAX` at most before a request begins. After
`SHARE_SECONDS` of parsing, the server reads no more of it before its caller's turn has come.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from http_server.known_callers import KnownCallers, network_of
from http_server.places import NoPlaceError, PlaceLimits, who_yields
from http_server.turns import Caller, Turns

HEAD_BYTES_MAX = 64 * 1024
"""The most bytes of one connection before its request begins, and sent ahead during a request."""
HEAD_READ_BYTES = 4 * 1024
"""Bytes of one read while no request is served: a millisecond of the smallest chunks, or of 32 heads sent ahead."""
CHUNK_READ_BYTES = 16 * 1024
"""The same while a request is served, for chunks and WebSocket frames."""
BODY_READ_BYTES = 64 * 1024
"""The same for a body of known length, which is only copied."""
SHARE_SECONDS = 0.001
STEP_SECONDS_MIN = 20e-6  # the loop's own time for a read
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 20\r\nConnection: close\r\n\r\n"
    b"too many connections"
)


@dataclass(frozen=True, slots=True)
class DoorLimits:
    """Connections at once, and the time that one may idle."""

    places: PlaceLimits
    idle_seconds: float


class ConnectionDoor:
    """The factory of a server's protocols, for `loop.create_server`."""

    def __init__(
        self,
        make_protocol: Callable[[], asyncio.Protocol],
        limits: DoorLimits,
        turns: Turns | None = None,
        caller_of: Callable[[asyncio.BaseTransport], Caller] | None = None,
    ) -> None:
        """Create it; `make_protocol` returns the protocol behind the door, `caller_of` the caller of a connection."""
        self.make = make_protocol
        self.limits = limits
        self.turns = turns or Turns()
        self.caller_of = caller_of or KnownCallers(Caller).of
        # One buffer for all: its bytes are copied before the next read.
        self.buffer = memoryview(bytearray(BODY_READ_BYTES))
        self._inside: dict[asyncio.BaseTransport, Visitor] = {}
        self.is_closed = False

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._inside)

    def __call__(self) -> asyncio.BaseProtocol:
        """Return a protocol for a new connection."""
        return Visitor(self)

    def visitor(self, transport: asyncio.BaseTransport | None) -> Visitor | None:
        """Return the connection behind a transport, while it is inside."""
        return None if transport is None else self._inside.get(transport)

    @contextlib.contextmanager
    def serving(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        """Mark a connection as serving a request: it does not yield to a newcomer as an idle one would."""
        visitor = self.visitor(transport)
        if visitor is None:
            yield
            return
        visitor.served += 1
        try:
            yield
        finally:
            visitor.served -= 1
            visitor.active_at = asyncio.get_running_loop().time()

    def close(self) -> None:
        """Refuse all newcomers: asyncio hands over accepted connections even after its listener is closed."""
        self.is_closed = True

    def enter(self, visitor: Visitor) -> bool:
        """Take a connection in, in place of another if full; False if no other yields, or once closed."""
        if self.is_closed:
            return False
        try:
            yielding = who_yields(self._inside.values(), visitor.network, self.limits.places)
        except NoPlaceError:
            return False
        if yielding is not None:
            yielding.end()
        self._inside[visitor.transport] = visitor
        return True

    def leave(self, visitor: Visitor) -> None:
        """Forget a connection."""
        self._inside.pop(visitor.transport, None)


class PacedTransport(asyncio.Transport):
    """A transport that reads only while both its protocol and its door allow it."""

    def __init__(self, real: asyncio.Transport) -> None:
        """Create it; both allow reading at first."""
        super().__init__()
        self._real = real
        self._is_held_by_protocol = self._is_held_by_door = False

    def hold(self, *, is_held: bool) -> None:
        """Pause or resume reading on the door's behalf."""
        self._is_held_by_door = is_held
        self._apply()

    def pause_reading(self) -> None:
        """Pause reading on the protocol's behalf."""
        self._is_held_by_protocol = True
        self._apply()

    def resume_reading(self) -> None:
        """Resume reading on the protocol's behalf."""
        self._is_held_by_protocol = False
        self._apply()

    def _apply(self) -> None:
        if self._is_held_by_protocol or self._is_held_by_door:
            self._real.pause_reading()
        else:
            self._real.resume_reading()

    def is_reading(self) -> bool:
        """Return whether reading is on."""
        return self._real.is_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the connection's extra information."""
        return self._real.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Return whether it is closed, or about to be."""
        return self._real.is_closing()

    def close(self) -> None:
        """Close it after all data is sent."""
        self._real.close()

    def abort(self) -> None:
        """Close it at once."""
        self._real.abort()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        self._real.write(data)

    def can_write_eof(self) -> bool:
        """Return whether `write_eof` may be called."""
        return self._real.can_write_eof()

    def write_eof(self) -> None:
        """End the sending side."""
        self._real.write_eof()

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that wait to be sent."""
        return self._real.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the levels at which writing pauses and resumes."""
        self._real.set_write_buffer_limits(high, low)


class Visitor(asyncio.BufferedProtocol):
    """A connection that passes its events on, once the door has let it in."""

    transport: PacedTransport
    network: str | None
    caller: Caller

    def __init__(self, door: ConnectionDoor) -> None:
        """Not connected yet."""
        self._door = door
        self._inner: asyncio.Protocol | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._turn: asyncio.Task[None] | None = None
        self._since_turn = 0.0  # seconds of parsing
        self._heard = 0  # bytes since the last request ended
        self._may_hear = HEAD_BYTES_MAX
        self._requests = 0  # requests that are being served
        self._read_bytes = HEAD_READ_BYTES
        self._is_deaf = False
        self.served = 0
        self.active_at = 0.0

    @property
    def is_idle(self) -> bool:
        """True if it may end in favour of another connection."""
        return not self.served

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Enter through the door, or refuse and close."""
        assert isinstance(transport, asyncio.Transport)
        peer = transport.get_extra_info("peername")
        self.transport, self.network = PacedTransport(transport), network_of(str(peer[0])) if peer else None
        self.active_at = asyncio.get_running_loop().time()
        if not self._door.enter(self):
            if not self._door.is_closed:
                transport.write(REFUSAL)
            transport.close()
            return
        self.caller = self._door.caller_of(self.transport)
        self._inner = self._door.make()
        self._inner.connection_made(self.transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the door, and pass the loss on."""
        self._door.leave(self)
        for pending_work in (self._timer, self._turn):
            if pending_work is not None:
                pending_work.cancel()
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Return a buffer for the next read."""
        return self._door.buffer[: self._read_bytes]

    def buffer_updated(self, nbytes: int) -> None:
        """Pass the read bytes on, and count them."""
        if self._inner is None:
            return
        self._heard += nbytes
        if not self._requests and self._heard > self._may_hear:
            self.end()
            return
        # Wall time: no code waits here, and reading the thread's own time is a system call.
        started_at = time.perf_counter()
        self._inner.data_received(bytes(self._door.buffer[:nbytes]))
        parsing_seconds = max(STEP_SECONDS_MIN, time.perf_counter() - started_at)
        self.caller.used += parsing_seconds
        self._since_turn += parsing_seconds
        if self._since_turn >= SHARE_SECONDS and self._turn is None:
            self.transport.hold(is_held=True)
            self._turn = asyncio.get_running_loop().create_task(self._go_on_in_turn())

    def eof_received(self) -> bool | None:
        """Pass the peer's end of sending on."""
        return self._inner.eof_received() if self._inner is not None else None

    def pause_writing(self) -> None:
        """Pass the pause on: the peer does not read."""
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass the resumption on."""
        if self._inner is not None:
            self._inner.resume_writing()

    def request_begins(self, *, has_length: bool) -> None:
        """Note that a request's head has arrived, perhaps with the length of its body."""
        self._requests += 1
        self._read_bytes = BODY_READ_BYTES if has_length else CHUNK_READ_BYTES

    def request_ends(self, unread: int = 0) -> None:
        """Note that the request is answered; at most `unread` bytes of its body may still come, and are dropped."""
        self._requests -= 1
        self._read_bytes = HEAD_READ_BYTES
        self._heard, self._may_hear = 0, HEAD_BYTES_MAX + unread

    def stop_reading(self) -> None:
        """Read no more from it; an answer in progress is still sent."""
        self._is_deaf = True
        self.transport.hold(is_held=True)

    def end(self) -> None:
        """Close it at once, and free its place before the loop reports the end."""
        self._door.leave(self)
        self.transport.abort()

    async def _go_on_in_turn(self) -> None:
        await self._door.turns.take(self.caller)
        self._since_turn, self._turn = 0.0, None
        self.transport.hold(is_held=self._is_deaf)

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        idle_seconds = self._door.limits.idle_seconds
        if not self.served and loop.time() - self.active_at >= idle_seconds:
            self.end()
            return
        self._timer = loop.call_later(idle_seconds / 2, self._watch)
