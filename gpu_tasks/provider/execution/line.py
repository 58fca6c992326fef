"""The queue for devices: one user a device, and due races before everything else.

A race uses the device that was drawn for it. A judgement takes any free device. The order among waiting users:

1. races whose turn has come on their device
2. judgements
3. races whose turn on their device comes later, in the order of their draws

Judgements precede later races, because a device with a constant supply of races would otherwise never judge. So a due
race waits at most for its device's present computation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

Rank = tuple[int, ...]
"""Lower ranks go first. Equal ranks keep their order of arrival."""
FIRST: Rank = (0,)
JUDGEMENT: Rank = (1,)


def rank_of_race(drawn_at: int, before: int) -> Rank:
    """Return the rank of a race that was drawn at a block, with `before` units ahead of it on its device."""
    return (2 if before else 0, drawn_at, before)


@dataclass(slots=True)
class _Waiting:
    """A waiting user. `place` is None for a judgement, which takes any device."""

    place: bytes | None
    rank: Rank
    turn: asyncio.Future[bytes] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Line:
    """Places (devices) and their waiting users. Invariant: a place is free or has one user."""

    def __init__(self) -> None:
        """There is no place yet."""
        self._places: set[bytes] = set()
        self._free: list[bytes] = []
        self._waiting: list[_Waiting] = []

    def add(self, place: bytes) -> None:
        """Add a place."""
        assert place not in self._places
        self._places.add(place)
        self.give(place)

    def is_free(self, place: bytes) -> bool:
        """Return True if the place is free."""
        return place in self._free

    async def take(self, place: bytes | None = None, *, rather: Iterable[bytes] = (), rank: Rank = FIRST) -> bytes:
        """Wait for this place, or without a `place` for any, preferably a free one of `rather`.

        Every user gives its place back with `give`. A user that waits for any place is a judge.
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
            # A waiter that is cancelled in the moment of its turn already has the place, and would keep it for ever.
            if waiting.turn.done() and not waiting.turn.cancelled():
                self.give(waiting.turn.result())
            raise
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def give(self, place: bytes) -> None:
        """Free a place, or pass it to the first waiting user."""
        assert place not in self._free  # its one user gives it back once
        suitable = [waiting for waiting in self._waiting if waiting.place in (None, place)]
        for waiting in sorted(suitable, key=lambda waiting: waiting.rank):
            if not waiting.turn.done():
                self._waiting.remove(waiting)
                waiting.turn.set_result(place)
                return
        self._free.append(place)
