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

    def has_to_wait(self, peer_address: str | None) -> bool:
        """Return True if an address must wait. This machine (None) never waits."""
        return peer_address is not None and self._until.get(peer_address, 0.0) > asyncio.get_running_loop().time()

    def wait(self, peer_address: str | None) -> None:
        """Make an address wait from now on."""
        if peer_address is None:
            return
        now_seconds = asyncio.get_running_loop().time()
        if len(self._until) >= WAITING_MAX:
            self._until = {
                waiting_address: waiting_until
                for waiting_address, waiting_until in self._until.items()
                if waiting_until > now_seconds
            }
        self._until[peer_address] = now_seconds + WAIT_SECONDS


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

    def progress(self, size_bytes: int) -> None:
        """Note `size_bytes` more transferred bytes, which extend the deadline."""
        self.moved += size_bytes
        if self.is_lost:
            return
        self.timeout.reschedule(self.started + GRACE_SECONDS + self.moved / BYTES_PER_SECOND_MIN)


class RequestSlots:
    """The slots of one kind of request."""

    def __init__(self, slots_max: int, of_address: int) -> None:
        """The most requests at once, and the most of one address."""
        self._slots_max = slots_max
        self._of_address = of_address
        self._taken: dict[RequestSlot, None] = {}

    @contextlib.asynccontextmanager
    async def take(self, peer_address: str | None) -> AsyncIterator[RequestSlot]:
        """Yield a slot. Raise BusyError, or TimeoutError if the work was too slow or had to yield its slot."""
        slots_of_peer = [slot for slot in self._taken if peer_address is not None and slot.address == peer_address]
        # An address at its own limit replaces one of its own requests, never another address's.
        if len(slots_of_peer) >= self._of_address:
            self._end_slowest(slots_of_peer)
        elif len(self._taken) >= self._slots_max:
            self._end_slowest(list(self._taken))
        now_seconds = asyncio.get_running_loop().time()
        async with asyncio.timeout_at(now_seconds + GRACE_SECONDS) as timeout:
            slot = RequestSlot(peer_address, timeout, now_seconds)
            self._taken[slot] = None
            try:
                yield slot
            finally:
                self._taken.pop(slot, None)

    def _end_slowest(self, candidate_slots: list[RequestSlot]) -> None:
        now_seconds = asyncio.get_running_loop().time()
        # A request that has just begun has no speed to compare.
        older_slots = [slot for slot in candidate_slots if now_seconds - slot.started >= GRACE_SECONDS / 2]
        if not older_slots:
            raise BusyError
        slowest_slot = min(older_slots, key=lambda slot: slot.moved / (now_seconds - slot.started))
        # Removed here and not at its end, so that its slot is free for the new request at once.
        del self._taken[slowest_slot]
        slowest_slot.is_lost = True
        if not slowest_slot.timeout.expired():
            slowest_slot.timeout.reschedule(now_seconds)


def address_of_peer(request: web.Request) -> str | None:
    """Return the client's network; None for this machine, which may be a proxy for any client."""
    return None if request.remote is None else network_of(request.remote)
