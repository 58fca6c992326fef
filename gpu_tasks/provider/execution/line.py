"""The queue for devices: one user a device, and due races before everything else.

A race uses the device that was drawn for it. A check takes any free device. The order among waiting users:

1. races whose turn has come on their device
2. checks
3. races whose turn on their device comes later, in the order of their draws

Checks precede later races, because a device with a constant supply of races would otherwise never check. So a due
race waits at most for its device's present computation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

Rank = tuple[int, ...]
"""Lower ranks go first. Equal ranks keep their order of arrival."""
FIRST: Rank = (0,)
CHECK: Rank = (1,)


def rank_of_race(drawn_at: int, earlier_racers: int) -> Rank:
    """Return the rank of a race that was drawn at a block, with `earlier_racers` units ahead of it on its device."""
    return (2 if earlier_racers else 0, drawn_at, earlier_racers)


@dataclass(slots=True)
class _WaitingRequest:
    """A waiting user. `place` is None for a check, which takes any device."""

    place: bytes | None
    rank: Rank
    turn: asyncio.Future[bytes] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Line:
    """Places (devices) and their waiting users. Invariant: a place is free or has one user."""

    def __init__(self) -> None:
        """There is no place yet."""
        self._places: set[bytes] = set()
        self._free: list[bytes] = []
        self._waiting: list[_WaitingRequest] = []

    def add(self, line_place: bytes) -> None:
        """Add a place."""
        assert line_place not in self._places
        self._places.add(line_place)
        self.give(line_place)

    def is_free(self, line_place: bytes) -> bool:
        """Return True if the place is free."""
        return line_place in self._free

    async def take(
        self, place: bytes | None = None, *, preferred_places: Iterable[bytes] = (), request_rank: Rank = FIRST
    ) -> bytes:
        """Wait for this place, or without a `place` for any, preferably a free one of `preferred_places`.

        Every user gives its place back with `give`. A user that waits for any place is a checker.
        """
        suitable = [free_place for free_place in self._free if place in (None, free_place)]
        if suitable:
            taken_place = next((free_place for free_place in suitable if free_place in preferred_places), suitable[0])
            self._free.remove(taken_place)
            return taken_place
        waiting_request = _WaitingRequest(place, CHECK if place is None else request_rank)
        self._waiting.append(waiting_request)
        try:
            return await waiting_request.turn
        except asyncio.CancelledError:
            # A waiter that is cancelled in the moment of its turn already has the place, and would keep it for ever.
            if waiting_request.turn.done() and not waiting_request.turn.cancelled():
                self.give(waiting_request.turn.result())
            raise
        finally:
            if waiting_request in self._waiting:
                self._waiting.remove(waiting_request)

    def give(self, free_place: bytes) -> None:
        """Free a place, or pass it to the first waiting user."""
        assert free_place not in self._free  # its one user gives it back once
        suitable = [waiting_request for waiting_request in self._waiting if waiting_request.place in (None, free_place)]
        for waiting_request in sorted(suitable, key=lambda waiting_request: waiting_request.rank):
            if not waiting_request.turn.done():
                self._waiting.remove(waiting_request)
                waiting_request.turn.set_result(free_place)
                return
        self._free.append(free_place)
