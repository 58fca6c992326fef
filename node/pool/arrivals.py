"""Extrinsics that wait to be judged, by who brought them, served in turn.

Invariant: every source, this node's users together being one, has a queue of its own, bounded in count and
bytes, and one of each is served before a second of any; so whoever brings much waits behind himself alone. What a
peer brings beyond that is dropped, this node's users wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import trio

from node.pool.refusal import Refusal

SOURCE_COUNT_MAX = 4_096
SOURCE_BYTES_MAX = 1024 * 1024  # 7,000 transfers, or 8 of the longest extrinsics
PEERS_BYTES_MAX = 32 * 1024 * 1024  # of all peers together
Source: TypeAlias = "str | None"
"""A peer; None for this node's users."""


@dataclass(slots=True, eq=False)
class Submission:
    """Extrinsics that somebody waits for together."""

    missing: int
    done: trio.Event = field(default_factory=trio.Event)

    def note(self) -> None:
        """One of them was judged."""
        self.missing -= 1
        if not self.missing:
            self.done.set()


@dataclass(slots=True, eq=False)
class Arrival:
    """An extrinsic on its way into the pool; `refusal` is why it did not get there."""

    raw: bytes
    source: Source
    extrinsic_hash: bytes
    submission: Submission | None = None
    refusal: Refusal | None = None


@dataclass(slots=True, eq=False)
class _Queue:
    """What one source brought."""

    arrivals: deque[Arrival] = field(default_factory=deque)
    size: int = 0

    def has_room(self) -> bool:
        return len(self.arrivals) < SOURCE_COUNT_MAX and self.size < SOURCE_BYTES_MAX


class Arrivals:
    """All of them."""

    def __init__(self) -> None:
        self._queues: dict[Source, _Queue] = {}
        self._turns: deque[Source] = deque()
        self._peers_size = 0
        self._under_way: set[bytes] = set()  # what peers brought and nobody judged yet
        self._filled = trio.Event()
        self._own_writers = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return sum(len(queue.arrivals) for queue in self._queues.values())

    def offer(self, arrival: Arrival) -> bool:
        """Take one of a peer; False when it is here already, or there is no room for it."""
        # Every peer brings the same one within moments: it is judged once.
        if arrival.extrinsic_hash in self._under_way or self._peers_size >= PEERS_BYTES_MAX:
            return False
        queue = self._queues.get(arrival.source)
        if queue is not None and not queue.has_room():
            return False
        self._under_way.add(arrival.extrinsic_hash)
        self._peers_size += len(arrival.raw)
        self._append(arrival)
        return True

    async def put(self, arrivals: Sequence[Arrival]) -> None:
        """Take some of this node's users, in order, when there is room: together they may go over it once."""
        while (queue := self._queues.get(None)) is not None and not queue.has_room():
            await self._own_writers.park()
        for arrival in arrivals:
            self._append(arrival)

    def take(self) -> Arrival | None:
        """Return the next to be judged."""
        if not self._turns:
            return None
        source = self._turns.popleft()
        queue = self._queues[source]
        arrival = queue.arrivals.popleft()
        queue.size -= len(arrival.raw)
        if source is None:
            if self._own_writers:
                self._own_writers.unpark()
        else:
            self._peers_size -= len(arrival.raw)
        if queue.arrivals:
            self._turns.append(source)
        else:
            del self._queues[source]
        return arrival

    async def wait(self) -> None:
        """Until there is one."""
        if not self._turns:
            self._filled = trio.Event()
            await self._filled.wait()

    def judged(self, arrival: Arrival) -> None:
        """It is in the pool, or `arrival.refusal` says why not."""
        self._under_way.discard(arrival.extrinsic_hash)
        if arrival.submission is not None:
            arrival.submission.note()

    def _append(self, arrival: Arrival) -> None:
        queue = self._queues.get(arrival.source)
        if queue is None:
            queue = self._queues[arrival.source] = _Queue()
            self._turns.append(arrival.source)
        queue.arrivals.append(arrival)
        queue.size += len(arrival.raw)
        self._filled.set()
