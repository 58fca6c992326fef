"""Extrinsics that wait for a check, served in turn by source.

Invariant: every source has a queue of its own, bounded in count and bytes. This node's users are one source together.
Each source is served once before any is served twice, so a busy source delays only itself. Extrinsics above a peer's
bound are dropped. This node's users wait instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import trio

from node.pool.refusal import Refusal

SOURCE_COUNT_MAX = 4_096
SOURCE_BYTES_MAX = 1024 * 1024  # 7,000 transfers, or 8 extrinsics of the greatest length
PEERS_BYTES_MAX = 32 * 1024 * 1024  # of all peers together
Source: TypeAlias = "str | None"
"""A peer; None for this node's users."""


@dataclass(slots=True, eq=False)
class Submission:
    """Extrinsics that one caller submitted together, and waits for."""

    missing: int
    done: trio.Event = field(default_factory=trio.Event)

    def note(self) -> None:
        """Count one of them as judged."""
        self.missing -= 1
        if not self.missing:
            self.done.set()


@dataclass(slots=True, eq=False)
class Arrival:
    """An extrinsic on its way into the pool; `refusal` is the reason why it did not enter."""

    raw: bytes
    source: Source
    extrinsic_hash: bytes
    submission: Submission | None = None
    refusal: Refusal | None = None


@dataclass(slots=True, eq=False)
class _Queue:
    """The waiting extrinsics of one source."""

    arrivals: deque[Arrival] = field(default_factory=deque)
    size: int = 0

    def has_room(self) -> bool:
        return len(self.arrivals) < SOURCE_COUNT_MAX and self.size < SOURCE_BYTES_MAX


class Arrivals:
    """The waiting extrinsics of all sources."""

    def __init__(self) -> None:
        self._queues_by_source: dict[Source, _Queue] = {}
        self._source_turns: deque[Source] = deque()
        self._peers_size = 0
        self._under_way: set[bytes] = set()  # hashes of peers' extrinsics that are not judged yet
        self._has_arrivals = trio.Event()
        self._own_writers = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return sum(len(queue.arrivals) for queue in self._queues_by_source.values())

    def offer(self, arrival: Arrival) -> bool:
        """Add a peer's extrinsic; False if it is already waiting or finds no room."""
        # Every peer sends the same extrinsic within moments; the node judges it once.
        if arrival.extrinsic_hash in self._under_way or self._peers_size >= PEERS_BYTES_MAX:
            return False
        queue = self._queues_by_source.get(arrival.source)
        if queue is not None and not queue.has_room():
            return False
        self._under_way.add(arrival.extrinsic_hash)
        self._peers_size += len(arrival.raw)
        self._append_arrival(arrival)
        return True

    async def put(self, arrivals: Sequence[Arrival]) -> None:
        """Add extrinsics of this node's users, in order, once there is room; a single call may exceed the bound."""
        while (queue := self._queues_by_source.get(None)) is not None and not queue.has_room():
            await self._own_writers.park()
        for arrival in arrivals:
            self._append_arrival(arrival)

    def take(self) -> Arrival | None:
        """Return the next extrinsic to judge."""
        if not self._source_turns:
            return None
        source = self._source_turns.popleft()
        queue = self._queues_by_source[source]
        arrival = queue.arrivals.popleft()
        queue.size -= len(arrival.raw)
        if source is None:
            if self._own_writers:
                self._own_writers.unpark()
        else:
            self._peers_size -= len(arrival.raw)
        if queue.arrivals:
            self._source_turns.append(source)
        else:
            del self._queues_by_source[source]
        return arrival

    async def wait(self) -> None:
        """Wait until there is one."""
        if not self._source_turns:
            self._has_arrivals = trio.Event()
            await self._has_arrivals.wait()

    def judged(self, arrival: Arrival) -> None:
        """Finish an arrival: it is in the pool, or `arrival.refusal` is set."""
        self._under_way.discard(arrival.extrinsic_hash)
        if arrival.submission is not None:
            arrival.submission.note()

    def _append_arrival(self, arrival: Arrival) -> None:
        queue = self._queues_by_source.get(arrival.source)
        if queue is None:
            queue = self._queues_by_source[arrival.source] = _Queue()
            self._source_turns.append(arrival.source)
        queue.arrivals.append(arrival)
        queue.size += len(arrival.raw)
        self._has_arrivals.set()
