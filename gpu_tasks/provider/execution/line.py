"""Who is next on a device: one user a device, and a race whose time runs before everything else.

The rule: a race uses the device that was drawn for it; a judgement takes any that is free. Among those who wait, a race
that its device has turned to goes first, then judgements, then races that their device is to turn to later, in the
order in which it was drawn for them: a device that is never without a race would else judge nothing. So what a race
waits for whose time runs is at most what its device computes now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

Rank = tuple[int, ...]
"""Lower is earlier; of equal ones, who came first."""
FIRST: Rank = (0,)
JUDGEMENT: Rank = (1,)


def rank_of_race(drawn_at: int, before: int) -> Rank:
    """Of a race that its device was drawn for at a block, with so many units before it."""
    return (2 if before else 0, drawn_at, before)


@dataclass(slots=True)
class _Waiting:
    """Somebody who waits; `place` is None for a judgement, which takes any."""

    place: bytes | None
    rank: Rank
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

    async def take(self, place: bytes | None = None, *, rather: Iterable[bytes] = (), rank: Rank = FIRST) -> bytes:
        """Wait for this place, or for any, of free ones one of `rather`; whoever takes a place gives it back.

        Who waits for any judges.
        """
        suitable = [free for free in self._free if place in (None, free)]
        if suitable:
            taken = next((free for free in suitable if free in rather), suitable[0])
            self._free.remove(taken)
            return taken
        waiting = _Waiting(place, JUDGEMENT if place is None else rank)
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
        """A place is free: to whoever waits for it and comes first, else to whoever comes."""
        assert place not in self._free  # it had one user, who gives it back once
        suitable = [waiting for waiting in self._waiting if waiting.place in (None, place)]
        for waiting in sorted(suitable, key=lambda waiting: waiting.rank):
            if not waiting.turn.done():
                self._waiting.remove(waiting)
                waiting.turn.set_result(place)
                return
        self._free.append(place)
