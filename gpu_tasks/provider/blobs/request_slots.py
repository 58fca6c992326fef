"""Limits on simultaneous requests of one kind, and on slow requests.

Invariants:

* After a short grace period a request must transfer a minimum number of bytes per second.
* If all slots, or all slots of an address, are taken, a new request replaces the slowest one past half its grace
  period. So a deliberately slow client blocks no other client.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import web

from http_server.known_callers import network_of

GRACE_SECONDS = 2.0
BYTES_PER_SECOND_MIN = 64 * 1024


WAIT_SECONDS = 2.0
"""Seconds that an address must wait after an unauthorised or incomplete question."""
WAITING_MAX = 4_096


class WaitingAddresses:
    """Addresses that must wait before their next question."""

    def __init__(self) -> None:
        """No address waits."""
        self._until: dict[str, float] = {}

    def has_to_wait(self, address: str | None) -> bool:
        """Return True if an address must wait. This machine (None) never waits."""
        return address is not None and self._until.get(address, 0.0) > asyncio.get_running_loop().time()

    def wait(self, address: str | None) -> None:
        """Make an address wait from now on."""
        if address is None:
            return
        now = asyncio.get_running_loop().time()
        if len(self._until) >= WAITING_MAX:
            self._until = {each: until for each, until in self._until.items() if until > now}
        self._until[address] = now + WAIT_SECONDS


class BusyError(Exception):
    """Every slot is taken by a request that has just begun."""


@dataclass(slots=True, eq=False)
class RequestSlot:
    """A request in progress."""

    address: str | None
    timeout: asyncio.Timeout
    started: float
    moved: int = 0
    is_lost: bool = False

    def progress(self, size: int) -> None:
        """Note `size` more transferred bytes, which extend the deadline."""
        self.moved += size
        if self.is_lost:
            return
        self.timeout.reschedule(self.started + GRACE_SECONDS + self.moved / BYTES_PER_SECOND_MIN)


class RequestSlots:
    """The slots of one kind of request."""

    def __init__(self, total: int, of_address: int) -> None:
        """The most requests at once, and the most of one address."""
        self._total = total
        self._of_address = of_address
        self._taken: dict[RequestSlot, None] = {}

    @contextlib.asynccontextmanager
    async def take(self, address: str | None) -> AsyncIterator[RequestSlot]:
        """Yield a slot. Raise BusyError, or TimeoutError if the work was too slow or had to yield its slot."""
        same = [slot for slot in self._taken if address is not None and slot.address == address]
        # An address at its own limit replaces one of its own requests, never another address's.
        if len(same) >= self._of_address:
            self._end_slowest(same)
        elif len(self._taken) >= self._total:
            self._end_slowest(list(self._taken))
        now = asyncio.get_running_loop().time()
        async with asyncio.timeout_at(now + GRACE_SECONDS) as timeout:
            slot = RequestSlot(address, timeout, now)
            self._taken[slot] = None
            try:
                yield slot
            finally:
                self._taken.pop(slot, None)

    def _end_slowest(self, among: list[RequestSlot]) -> None:
        now = asyncio.get_running_loop().time()
        # A request that has just begun has no speed to compare.
        old = [slot for slot in among if now - slot.started >= GRACE_SECONDS / 2]
        if not old:
            raise BusyError
        slowest = min(old, key=lambda slot: slot.moved / (now - slot.started))
        # Removed here and not at its end, so that its slot is free for the new request at once.
        del self._taken[slowest]
        slowest.is_lost = True
        if not slowest.timeout.expired():
            slowest.timeout.reschedule(now)


def address_of_peer(request: web.Request) -> str | None:
    """Return the client's network; None for this machine, which may be a proxy for any client."""
    return None if request.remote is None else network_of(request.remote)
