"""One writer, many readers: an item that is published reaches everyone who listens at that moment.

A listener has a bounded queue. One that does not keep up ends with `LaggedError`; nobody else is held back. Who drops
its iterator is forgotten, also before its first item, when there is nothing yet that could run its end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")

QUEUE_ITEMS = 1024
WOKEN_AT_ONCE = 64
"""Listeners in one round of the loop: 4,096 that woke together kept everybody else waiting for 170 ms."""


class LaggedError(Exception):
    """A listener fell more than `QUEUE_ITEMS` items behind."""


class Publisher(Generic[T]):
    """The listeners of one kind of item."""

    def __init__(self) -> None:
        """Nobody listens yet."""
        self._queues: WeakSet[asyncio.Queue[T | None]] = WeakSet()
        self._under_way: deque[tuple[T, Iterator[asyncio.Queue[T | None]]]] = deque()

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._queues)

    def publish(self, item: T) -> None:
        """Hand `item` to every listener: to the first ones now, to the others in the next rounds of the loop."""
        self._under_way.append((item, iter(tuple(self._queues))))
        if len(self._under_way) == 1:
            self._hand_out()

    def _hand_out(self) -> None:
        while self._under_way:
            item, queues = self._under_way[0]
            woken = list(islice(queues, WOKEN_AT_ONCE))
            for queue in woken:
                if queue.qsize() < QUEUE_ITEMS:
                    queue.put_nowait(item)
                elif queue.qsize() == QUEUE_ITEMS:
                    queue.put_nowait(None)
            if len(woken) == WOKEN_AT_ONCE:
                asyncio.get_running_loop().call_soon(self._hand_out)
                return
            self._under_way.popleft()

    def listen(self) -> AsyncIterator[T]:
        """Everything published from this call on (not from the first `anext`)."""
        queue: asyncio.Queue[T | None] = asyncio.Queue()
        self._queues.add(queue)
        return self._items(queue)

    async def _items(self, queue: asyncio.Queue[T | None]) -> AsyncIterator[T]:
        try:
            while (item := await queue.get()) is not None:
                yield item
            raise LaggedError(f"more than {QUEUE_ITEMS} items behind")
        finally:
            self._queues.discard(queue)
