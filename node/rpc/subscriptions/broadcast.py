"""One writer, many readers: an item that is published reaches everyone who listens at that moment.

A listener has a bounded queue. One that does not keep up ends with `LaggedError`; nobody else is held back. Who drops
its iterator is forgotten, also before its first item, when there is nothing yet that could run its end.
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
"""Iterators in one round of the loop: 4,096 that woke together kept everybody else waiting for 170 ms."""


class LaggedError(Exception):
    """A listener fell more than `QUEUE_ITEMS` items behind."""


class Audience(Protocol[T_contra]):
    """Who is told of an item at once; it must cost next to nothing."""

    def tell(self, item: T_contra, /) -> None:
        """Take one more item."""


class Publisher(Generic[T]):
    """The listeners of one kind of item; they are forgotten when nobody else holds them."""

    def __init__(self) -> None:
        """Nobody listens yet."""
        self._listeners: WeakSet[Audience[T]] = WeakSet()
        self._queues: WeakSet[_Backlog[T]] = WeakSet()
        self._under_way: deque[tuple[T, Iterator[_Backlog[T]]]] = deque()

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners) + len(self._queues)

    def publish(self, item: T) -> None:
        """Tell every listener, and wake iterators: the first ones now, the others in the next rounds of the loop."""
        for listener in tuple(self._listeners):
            listener.tell(item)
        self._under_way.append((item, iter(tuple(self._queues))))
        if len(self._under_way) == 1:
            self._hand_out()

    def _hand_out(self) -> None:
        while self._under_way:
            item, queues = self._under_way[0]
            woken = list(islice(queues, WOKEN_AT_ONCE))
            for queue in woken:
                queue.tell(item)
            if len(woken) == WOKEN_AT_ONCE:
                asyncio.get_running_loop().call_soon(self._hand_out)
                return
            self._under_way.popleft()

    def add(self, listener: Audience[T]) -> None:
        """From now on tell `listener`, for as long as somebody holds it."""
        self._listeners.add(listener)

    def discard(self, listener: Audience[T]) -> None:
        """Tell it no more."""
        self._listeners.discard(listener)

    def listen(self) -> AsyncIterator[T]:
        """Everything published from this call on (not from the first `anext`)."""
        queue: _Backlog[T] = _Backlog()
        self._queues.add(queue)
        return self._items(queue)

    async def _items(self, queue: _Backlog[T]) -> AsyncIterator[T]:
        try:
            while (item := await queue.get()) is not None:
                yield item
            raise LaggedError(f"more than {QUEUE_ITEMS} items behind")
        finally:
            self._queues.discard(queue)


class Topics(Generic[T]):
    """Publishers by topic: who listens to one is not woken for another, however many there are."""

    def __init__(self) -> None:
        """Nobody listens to anything."""
        self._publishers: WeakValueDictionary[bytes, Publisher[T]] = WeakValueDictionary()

    def publish(self, topic: bytes, item: T) -> None:
        """Tell those who listen to this topic."""
        publisher = self._publishers.get(topic)
        if publisher is not None:
            publisher.publish(item)

    def listen(self, topic: bytes) -> AsyncIterator[T]:
        """Everything published under this topic from this call on."""
        publisher = self._publishers.get(topic)
        if publisher is None:
            publisher = self._publishers[topic] = Publisher()
        return publisher.listen()


class _Backlog(asyncio.Queue[T | None]):
    """What a listener has not taken yet; None stands for the item that was one too many."""

    def tell(self, item: T, /) -> None:
        if self.qsize() < QUEUE_ITEMS:
            self.put_nowait(item)
        elif self.qsize() == QUEUE_ITEMS:
            self.put_nowait(None)
