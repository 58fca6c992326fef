"""Shared items for the subscriptions of one connection: what is due is noted, and written while the client reads.

Invariant: an item that is published costs a connection one note, however many subscriptions it has; items of
all kinds are written in the order in which they were published; a piece is written only in the caller's turn, and only
when nothing that was written before waits for the client; who falls `QUEUE_ITEMS` items of a kind behind has lagged,
and is told nothing more, whether it reads or not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from http_server.turns import Turns
from node.rpc import jsonrpc
from node.rpc.callers import RpcCaller
from node.rpc.subscriptions.broadcast import QUEUE_ITEMS
from node.rpc.subscriptions.shared_items import SharedItems
from node.rpc.work import Work

T = TypeVar("T")

PIECE_BYTES = 64 * 1024
PIECE_ITEMS = 32
"""Notifications in one turn, whichever comes first: half a millisecond with what sending them costs."""

Note = tuple["Followed[Any]", Any, int, Sequence[str]]
"""An item of a kind, its number, and for which subscriptions alone it is, if it is not for all."""


class Followed(Generic[T]):
    """One kind of items, and the subscriptions to it: an `Audience`."""

    def __init__(self, items: SharedItems[T], notification: str, note: Callable[[Note], None]) -> None:
        """Nobody subscribed yet."""
        self.waiting = 0  # notes that are not written yet
        self._items = items
        self._notification = notification
        self._note = note
        self._since: dict[str, int] = {}  # by subscription: how many items had been published
        self._published = 0
        items.publisher.add(self)

    @property
    def is_used(self) -> bool:
        """Whether anybody is subscribed."""
        return bool(self._since)

    def begin(self, keys: Sequence[str]) -> None:
        """Subscriptions that hear of the present item, and of each one after it."""
        self._since |= dict.fromkeys(keys, self._published)
        self._note((self, self._items.present(), 0, keys))

    def tell(self, item: T, /) -> None:
        """Note an item that is published."""
        self._published += 1
        self._note((self, item, self._published, ()))

    def end(self, key: str) -> None:
        """One subscription less."""
        self._since.pop(key, None)
        if not self._since:
            self._items.publisher.discard(self)

    def texts(self, item: T, number: int, only_for: Sequence[str]) -> Iterator[str]:
        """Yield the notifications of an item, as they are written."""
        for key in only_for or [key for key, since in self._since.items() if since < number]:
            if key in self._since:
                yield jsonrpc.notification_text(self._notification, key, self._items.text(item))


class Feeder:
    """Every kind of items that a connection follows."""

    def __init__(self, turns: Turns, caller: RpcCaller, send: Callable[[str], None], lag: Callable[[], None]) -> None:
        """`send` takes what is written; `lag` is called when it is too late for the client."""
        self._turns, self._caller, self._send, self._lag = turns, caller, send, lag
        self._followed: dict[SharedItems[Any], Followed[Any]] = {}
        self._kinds: dict[str, SharedItems[Any]] = {}
        self._asked: dict[tuple[SharedItems[Any], str], list[str]] = {}
        self._due: deque[Note] = deque()
        self._is_due = asyncio.Event()
        self._texts: Iterator[str] = iter(())

    def follow(self, key: str, notification: str, items: SharedItems[Any]) -> None:
        """A subscription; its first item is written after `begin`."""
        self._kinds[key] = items
        self._asked.setdefault((items, notification), []).append(key)

    def begin(self) -> None:
        """The answers that name the new subscriptions are queued: their items may follow."""
        asked, self._asked = self._asked, {}
        for (items, notification), named in asked.items():
            keys = [key for key in named if key in self._kinds]  # some may be over already
            if not keys:
                continue
            followed = self._followed.get(items)
            if followed is None:
                followed = self._followed[items] = Followed(items, notification, self._take_note)
            followed.begin(keys)

    def end(self, key: str) -> None:
        """A subscription is over."""
        items = self._kinds.pop(key)
        followed = self._followed.get(items)
        if followed is not None:
            followed.end(key)
            if not followed.is_used:
                del self._followed[items]

    async def run(self, has_room: asyncio.Event) -> None:
        """Write what is due while there is room, until cancelled."""
        while True:
            await self._is_due.wait()
            await has_room.wait()
            await self._turns.take(self._caller)
            with Work(self._turns, self._caller).step():
                self._write_piece()

    def _take_note(self, note: Note) -> None:
        if note[0].waiting >= QUEUE_ITEMS:
            self._lag()
            return
        note[0].waiting += 1
        self._due.append(note)
        self._is_due.set()

    def _write_piece(self) -> None:
        size = count = 0
        while size < PIECE_BYTES and count < PIECE_ITEMS:
            text = next(self._texts, None)
            if text is not None:
                self._send(text)
                size, count = size + len(text), count + 1
            elif self._due:
                followed, item, number, only_for = self._due.popleft()
                followed.waiting -= 1
                self._texts = followed.texts(item, number, only_for)
            else:
                self._is_due.clear()
                return
