"""How many requests of one kind are served at once, and how slow one may be.

Always: each has to make progress, so many bytes a second beyond a short grace; when all slots are taken, or all of one
address, the slowest of those that had their grace ends for the new one: who drips bytes holds nobody else up.
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
"""For so long nothing is asked from an address whose last question was a stranger's, or never came whole."""
WAITING_MAX = 4_096


class WaitingAddresses:
    """Who has to wait before it asks again."""

    def __init__(self) -> None:
        """Nobody."""
        self._until: dict[str, float] = {}

    def has_to_wait(self, address: str | None) -> bool:
        """Whether an address has; this machine never."""
        return address is not None and self._until.get(address, 0.0) > asyncio.get_running_loop().time()

    def wait(self, address: str | None) -> None:
        """Have an address wait from now on."""
        if address is None:
            return
        now = asyncio.get_running_loop().time()
        if len(self._until) >= WAITING_MAX:
            self._until = {each: until for each, until in self._until.items() if until > now}
        self._until[address] = now + WAIT_SECONDS


class BusyError(Exception):
    """Every slot is taken, by requests that have just begun."""


@dataclass(slots=True, eq=False)
class RequestSlot:
    """A request under way."""

    address: str | None
    timeout: asyncio.Timeout
    started: float
    moved: int = 0
    is_lost: bool = False

    def progress(self, size: int) -> None:
        """`size` bytes more went through: they give it time."""
        self.moved += size
        if self.is_lost:
            return
        self.timeout.reschedule(self.started + GRACE_SECONDS + self.moved / BYTES_PER_SECOND_MIN)


class RequestSlots:
    """Those of one kind."""

    def __init__(self, total: int, of_address: int) -> None:
        """So many at once, and so many of one address."""
        self._total = total
        self._of_address = of_address
        self._taken: dict[RequestSlot, None] = {}

    @contextlib.asynccontextmanager
    async def take(self, address: str | None) -> AsyncIterator[RequestSlot]:
        """Hold one; BusyError, or TimeoutError when what is done with it was too slow or had to yield."""
        same = [slot for slot in self._taken if address is not None and slot.address == address]
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
        old = [slot for slot in among if now - slot.started >= GRACE_SECONDS / 2]
        if not old:
            raise BusyError
        slowest = min(old, key=lambda slot: slot.moved / (now - slot.started))
        del self._taken[slowest]
        slowest.is_lost = True
        if not slowest.timeout.expired():
            slowest.timeout.reschedule(now)


def address_of_peer(request: web.Request) -> str | None:
    """Who asks; None for this machine, where it may be anybody behind a proxy."""
    return None if request.remote is None else network_of(request.remote)
