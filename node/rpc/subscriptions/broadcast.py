"""One writer, many readers: a published item reaches every listener of that moment.

A listener has a bounded queue. A slow one ends with `LaggedError`, and delays no other. A listener that drops its
iterator is forgotten, also before its first item. At that time its generator has not started, so the generator's own
end would not run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Generic, Protocol, TypeVar
from weakref import WeakSet, WeakValueDictionary

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

QUEUE_ITEMS = 1024
WOKEN_AT_ONCE = 64
"""Iterators in one round of the loop: 4,096 that woke together delayed all other tasks for 170 ms."""


class LaggedError(Exception):
    """A listener fell more than `QUEUE_ITEMS` items behind."""


class Audience(Protocol[T_contra]):
    """A listener that is called at once; it must cost almost nothing."""

    def tell(self, item: T_contra, /) -> None:
        """Take one more item."""


class Publisher(Generic[T]):
    """The listeners of one kind of item, held by weak references."""

    def __init__(self) -> None:
        """Create it without listeners."""
        self._listeners: WeakSet[Audience[T]] = WeakSet()
        self._queues: WeakSet[_Backlog[T]] = WeakSet()
        self._under_way: deque[tuple[T, Iterator[_Backlog[T]]]] = deque()

    @property
    def listeners(self) -> int:
        """The number of listeners."""
        return len(self._listeners) + len(self._queues)

    def publish(self, item: T) -> None:
        """Send an item to every listener, and wake iterators: the first now, the others in later rounds of the loop."""
        # A copy, because a listener may leave while it is called.
        for listener in tuple(self._listeners):
            listener.tell(item)
        self._under_way.append((item, iter(tuple(self._queues))))
        if len(self._under_way) == 1:
            self._hand_out()

    def _hand_out(self) -> None:
        while self._under_way:
            item, remaining_queues = self._under_way[0]
            woken_queues = list(islice(remaining_queues, WOKEN_AT_ONCE))
            for queue in woken_queues:
                queue.tell(item)
            if len(woken_queues) == WOKEN_AT_ONCE:
                asyncio.get_running_loop().call_soon(self._hand_out)
                return
            self._under_way.popleft()

    def add(self, listener: Audience[T]) -> None:
        """Send later items to `listener`, while another object holds it."""
        self._listeners.add(listener)

    def discard(self, listener: Audience[T]) -> None:
        """Stop sending items to `listener`."""
        self._listeners.discard(listener)

    def listen(self) -> AsyncIterator[T]:
        """Return all items published after this call (not after the first `anext`)."""
        queue: _Backlog[T] = _Backlog()
        self._queues.add(queue)
        return self._queued_items(queue)

    async def _queued_items(self, queue: _Backlog[T]) -> AsyncIterator[T]:
        try:
            while (item := await queue.get()) is not None:
                yield item
            raise LaggedError(f"more than {QUEUE_ITEMS} items behind")
        finally:
            self._queues.discard(queue)


class Topics(Generic[T]):
    """Publishers by topic: a listener of one topic is not woken for another, for any number of topics."""

    def __init__(self) -> None:
        """Create it without listeners."""
        self._publishers: WeakValueDictionary[bytes, Publisher[T]] = WeakValueDictionary()

    def publish(self, topic: bytes, item: T) -> None:
        """Send an item to the listeners of a topic."""
        publisher = self._publishers.get(topic)
        if publisher is not None:
            publisher.publish(item)

    def listen(self, topic: bytes) -> AsyncIterator[T]:
        """Return all items published under this topic after this call."""
        publisher = self._publishers.get(topic)
        if publisher is None:
            publisher = self._publishers[topic] = Publisher()
        return publisher.listen()


class _Backlog(asyncio.Queue[T | None]):
    """A listener's untaken items; None stands for the item that exceeded the queue."""

    def tell(self, item: T, /) -> None:
        if self.qsize() < QUEUE_ITEMS:
            self.put_nowait(item)
        elif self.qsize() == QUEUE_ITEMS:
            self.put_nowait(None)
