"""Shared items for the subscriptions of one connection: due items are noted, and written while the client reads.

Invariants:

* A published item costs a connection one note, for any number of subscriptions.
* Items of all kinds are written in the order of publication.
* A piece is written only in the caller's turn, and only when the client has read the earlier ones.
* A client that falls `QUEUE_ITEMS` items of a kind behind has lagged, and gets no further item.
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
"""Notifications in one turn, or fewer after `PIECE_BYTES`: half a millisecond with the sending."""

Note = tuple["Followed[Any]", Any, int, Sequence[str]]
"""(kind, item, its number, the only subscriptions that get it). Without subscriptions, all get it."""


class Followed(Generic[T]):
    """One kind of items, and the subscriptions to it: an `Audience`."""

    def __init__(self, items: SharedItems[T], notification: str, note: Callable[[Note], None]) -> None:
        """Create it without subscriptions."""
        self.waiting = 0  # notes that are not written yet
        self._items = items
        self._notification = notification
        self._note = note
        self._since: dict[str, int] = {}  # by subscription: the number of items published before it
        self._published = 0
        items.publisher.add(self)

    @property
    def is_used(self) -> bool:
        """True if there is a subscription."""
        return bool(self._since)

    def begin(self, keys: Sequence[str]) -> None:
        """Start subscriptions, which get the present item and each later one."""
        self._since |= dict.fromkeys(keys, self._published)
        self._note((self, self._items.present(), 0, keys))

    def tell(self, item: T, /) -> None:
        """Note a published item."""
        self._published += 1
        self._note((self, item, self._published, ()))

    def end(self, key: str) -> None:
        """End one subscription."""
        self._since.pop(key, None)
        if not self._since:
            self._items.publisher.discard(self)

    def texts(self, item: T, number: int, only_for: Sequence[str]) -> Iterator[str]:
        """Yield an item's notifications, one for each subscription."""
        for key in only_for or [key for key, since in self._since.items() if since < number]:
            if key in self._since:
                yield jsonrpc.notification_text(self._notification, key, self._items.text(item))


class Feeder:
    """All kinds of items that a connection follows."""

    def __init__(self, turns: Turns, caller: RpcCaller, send: Callable[[str], None], lag: Callable[[], None]) -> None:
        """Create it; `send` takes the texts, `lag` is called when the client is too far behind."""
        self._turns, self._caller, self._send, self._lag = turns, caller, send, lag
        self._followed: dict[SharedItems[Any], Followed[Any]] = {}
        self._kinds: dict[str, SharedItems[Any]] = {}
        self._asked: dict[tuple[SharedItems[Any], str], list[str]] = {}
        self._due: deque[Note] = deque()
        self._is_due = asyncio.Event()
        self._texts: Iterator[str] = iter(())

    def follow(self, key: str, notification: str, items: SharedItems[Any]) -> None:
        """Add a subscription; its first item is written after `begin`."""
        self._kinds[key] = items
        self._asked.setdefault((items, notification), []).append(key)

    def begin(self) -> None:
        """Start the new subscriptions: the answers that name them are queued, so their items may follow."""
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
        """End a subscription."""
        items = self._kinds.pop(key)
        followed = self._followed.get(items)
        if followed is not None:
            followed.end(key)
            if not followed.is_used:
                del self._followed[items]

    async def run(self, has_room: asyncio.Event) -> None:
        """Write due items while there is room, until cancelled."""
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
