"""Who is next on a device: one user a device, and races before judgements.

The rule: a race uses the device that was drawn for it; a judgement takes any that is free. Among those who wait, races
go first, then whoever came first. So what a race waits for is at most the one request that its device computes now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Waiting:
    """Somebody who waits; `place` is None for a judgement, which takes any."""

    place: bytes | None
    turn: asyncio.Future[bytes] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Line:
    """Places (devices) and who waits for them. Always: a place is free, or has one user."""

    def __init__(self) -> None:
        """No place yet."""
        self._places: set[bytes] = set()
        self._free: list[bytes] = []
        self._waiting: list[_Waiting] = []

    def add(self, place: bytes) -> None:
        """One place more."""
        assert place not in self._places
        self._places.add(place)
        self.give(place)

    def is_free(self, place: bytes) -> bool:
        """Whether nobody uses it now."""
        return place in self._free

    async def take(self, place: bytes | None = None, *, rather: Iterable[bytes] = ()) -> bytes:
        """Wait for this place, or for any, of free ones one of `rather`; whoever takes a place gives it back."""
        suitable = [free for free in self._free if place in (None, free)]
        if suitable:
            taken = next((free for free in suitable if free in rather), suitable[0])
            self._free.remove(taken)
            return taken
        waiting = _Waiting(place)
        self._waiting.append(waiting)
        try:
            return await waiting.turn
        except asyncio.CancelledError:
            # Whoever is cancelled in the moment of its turn has the place already, and would keep it for ever.
            if waiting.turn.done() and not waiting.turn.cancelled():
                self.give(waiting.turn.result())
            raise
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def give(self, place: bytes) -> None:
        """A place is free: to the first race that waits for it, else to the first judgement, else to whoever comes."""
        assert place not in self._free  # it had one user, who gives it back once
        races = [waiting for waiting in self._waiting if waiting.place == place]
        judgements = [waiting for waiting in self._waiting if waiting.place is None]
        for waiting in (*races, *judgements):
            if not waiting.turn.done():
                self._waiting.remove(waiting)
                waiting.turn.set_result(place)
                return
        self._free.append(place)
