"""How many connections a blob store holds at once, in all and of one address.

A connection costs a descriptor and some memory before it asks for anything, and one that does not read its answers
stays for ever. Always: there are never more than `total`; where they are used up, the one that has done nothing for
longest goes, never one whose request is being served (`request_slots` bounds those); and none idles for long.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator

from gpu_tasks.provider.blobs.request_slots import address_of

IDLE_SECONDS = 20.0


class ConnectionDoor:
    """Gives the protocols of a server; use as the factory of `loop.create_server`."""

    def __init__(self, make: Callable[[], asyncio.Protocol], total: int, of_address: int) -> None:
        """`make` gives the protocol behind the door."""
        self.make = make
        self._total = total
        self._of_address = of_address
        self._inside: dict[asyncio.BaseTransport, Visitor] = {}
        self._is_closed = False

    def __len__(self) -> int:
        """How many connections there are."""
        return len(self._inside)

    def __call__(self) -> asyncio.Protocol:
        """A protocol for a connection that is just made."""
        return Visitor(self)

    @contextlib.contextmanager
    def serving(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        """A request of this connection is being served."""
        visitor = None if transport is None else self._inside.get(transport)
        if visitor is None:
            yield
            return
        visitor.requests += 1
        try:
            yield
        finally:
            visitor.requests -= 1
            visitor.active_at = asyncio.get_running_loop().time()

    def close(self) -> None:
        """Let nobody in any more: asyncio hands over what it has accepted after its listener is closed too."""
        self._is_closed = True

    def enter(self, visitor: Visitor) -> bool:
        """Take a connection in, for another one if need be; False where all are busy, or once closed."""
        if self._is_closed:
            return False
        same = [other for other in self._inside.values() if visitor.address and other.address == visitor.address]
        if len(same) >= self._of_address:
            is_room = _end_idlest(same)
        else:
            is_room = len(self._inside) < self._total or _end_idlest(self._inside.values())
        if is_room:
            self._inside[visitor.transport] = visitor
        return is_room

    def leave(self, visitor: Visitor) -> None:
        """Forget a connection."""
        self._inside.pop(visitor.transport, None)


class Visitor(asyncio.Protocol):
    """A connection: passes on what happens to it, once the door has let it in."""

    transport: asyncio.Transport
    address: str | None

    def __init__(self, door: ConnectionDoor) -> None:
        """Not connected yet."""
        self._door = door
        self._inner: asyncio.Protocol | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.requests = 0
        self.active_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask the door."""
        assert isinstance(transport, asyncio.Transport)
        peer = transport.get_extra_info("peername")
        self.transport, self.address = transport, address_of(peer[0]) if peer else None
        self.active_at = asyncio.get_running_loop().time()
        if not self._door.enter(self):
            transport.abort()
            return
        self._inner = self._door.make()
        self._inner.connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._door.leave(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        if self._inner is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return self._inner.eof_received() if self._inner is not None else None

    def pause_writing(self) -> None:
        """Pass it on: the peer does not read."""
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        if self._inner is not None:
            self._inner.resume_writing()

    def end(self) -> None:
        """Close it at once, and give its place away before the loop says that it is closed."""
        self._door.leave(self)
        self.transport.abort()

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        if not self.requests and loop.time() - self.active_at >= IDLE_SECONDS:
            self.end()
            return
        self._timer = loop.call_later(IDLE_SECONDS / 2, self._watch)


def _end_idlest(among: Iterable[Visitor]) -> bool:
    idle = [visitor for visitor in among if not visitor.requests]
    if not idle:
        return False
    min(idle, key=lambda visitor: visitor.active_at).end()
    return True
