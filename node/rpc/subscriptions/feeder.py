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

    def __init__(self, items: SharedItems[T], notification: str, take_note: Callable[[Note], None]) -> None:
        """Create it without subscriptions."""
        self.waiting = 0  # notes that are not written yet
        self._shared_items = items
        self._notification = notification
        self._note = take_note
        self._published_before: dict[str, int] = {}  # by subscription: the number of items published before it
        self._published_count = 0
        items.publisher.add(self)

    @property
    def is_used(self) -> bool:
        """True if there is a subscription."""
        return bool(self._published_before)

    def begin(self, subscription_ids: Sequence[str]) -> None:
        """Start subscriptions, which get the present item and each later one."""
        self._published_before |= dict.fromkeys(subscription_ids, self._published_count)
        self._note((self, self._shared_items.present(), 0, subscription_ids))

    def tell(self, item: T, /) -> None:
        """Note a published item."""
        self._published_count += 1
        self._note((self, item, self._published_count, ()))

    def end(self, key: str) -> None:
        """End one subscription."""
        self._published_before.pop(key, None)
        if not self._published_before:
            self._shared_items.publisher.discard(self)

    def texts(self, item: T, number: int, only_for: Sequence[str]) -> Iterator[str]:
        """Yield an item's notifications, one for each subscription."""
        for subscription_id in only_for or [
            subscription_id
            for subscription_id, published_before in self._published_before.items()
            if published_before < number
        ]:
            if subscription_id in self._published_before:
                yield jsonrpc.notification_text(self._notification, subscription_id, self._shared_items.text(item))


class Feeder:
    """All kinds of items that a connection follows."""

    def __init__(
        self, turns: Turns, caller: RpcCaller, send_text: Callable[[str], None], report_lag: Callable[[], None]
    ) -> None:
        """Create it; `send_text` takes the texts, `report_lag` is called when the client is too far behind."""
        self._turns, self._caller, self._send_text, self._report_lag = turns, caller, send_text, report_lag
        self._followed_by_items: dict[SharedItems[Any], Followed[Any]] = {}
        self._items_by_subscription: dict[str, SharedItems[Any]] = {}
        self._new_subscriptions: dict[tuple[SharedItems[Any], str], list[str]] = {}
        self._due_notes: deque[Note] = deque()
        self._is_due = asyncio.Event()
        self._pending_texts: Iterator[str] = iter(())

    def follow(self, key: str, notification: str, items: SharedItems[Any]) -> None:
        """Add a subscription; its first item is written after `begin`."""
        self._items_by_subscription[key] = items
        self._new_subscriptions.setdefault((items, notification), []).append(key)

    def begin(self) -> None:
        """Start the new subscriptions: the answers that name them are queued, so their items may follow."""
        new_subscriptions, self._new_subscriptions = self._new_subscriptions, {}
        for (items, notification), named_ids in new_subscriptions.items():
            subscription_ids = [
                subscription_id for subscription_id in named_ids if subscription_id in self._items_by_subscription
            ]  # some may be over already
            if not subscription_ids:
                continue
            followed = self._followed_by_items.get(items)
            if followed is None:
                followed = self._followed_by_items[items] = Followed(items, notification, self._take_note)
            followed.begin(subscription_ids)

    def end(self, key: str) -> None:
        """End a subscription."""
        items = self._items_by_subscription.pop(key)
        followed = self._followed_by_items.get(items)
        if followed is not None:
            followed.end(key)
            if not followed.is_used:
                del self._followed_by_items[items]

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
            self._report_lag()
            return
        note[0].waiting += 1
        self._due_notes.append(note)
        self._is_due.set()

    def _write_piece(self) -> None:
        piece = count = 0
        while piece < PIECE_BYTES and count < PIECE_ITEMS:
            next_text = next(self._pending_texts, None)
            if next_text is not None:
                self._send_text(next_text)
                piece, count = piece + len(next_text), count + 1
            elif self._due_notes:
                followed, item, number, only_for = self._due_notes.popleft()
                followed.waiting -= 1
                self._pending_texts = followed.texts(item, number, only_for)
            else:
                self._is_due.clear()
                return
