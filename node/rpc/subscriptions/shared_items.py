"""Items with one text for all subscribers of a kind, computed once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

from node.rpc import jsonrpc
from node.rpc.jsonrpc import MAX_RESPONSE_BYTES, Json
from node.rpc.subscriptions.broadcast import Publisher

T = TypeVar("T")

TEXTS_KEPT = 64
"""The newest texts that are kept: a new head is encoded once, not once for each of 2,600 subscriptions."""


# Items that take long to compute and much memory: computed in pieces, and only while their client has room.
# Invariant: the finished part of an item counts as held for its client. An item that becomes longer than a response may
# be is given up at that point.
@dataclass(frozen=True, slots=True)
class LongItem:
    """An item as JSON in pieces; no piece at all if there is nothing to report."""

    pieces: Callable[[], AsyncGenerator[str, None]]

    async def text(self, hold_bytes: Callable[[int], None]) -> str | None:
        """Return the whole text, or its beginning if that alone is too long; None without pieces.

        `hold_bytes` counts the bytes until the text is returned.
        """
        text_pieces: list[str] = []
        total_bytes = 0
        try:
            async with aclosing(self.pieces()) as pieces:
                async for text_piece in pieces:
                    text_pieces.append(text_piece)
                    total_bytes += len(text_piece)
                    hold_bytes(len(text_piece))
                    if total_bytes > MAX_RESPONSE_BYTES:
                        break
            return "".join(text_pieces) if text_pieces else None
        finally:
            hold_bytes(-total_bytes)


class SharedItems(Generic[T]):
    """The present item, and each later published one."""

    def __init__(
        self,
        publisher: Publisher[T],
        present_item: Callable[[], T],
        item_name: Callable[[T], Hashable],
        item_json: Callable[[T], Json],
    ) -> None:
        """Create it; `item_name` identifies an item, `item_json` returns the client's form."""
        self.publisher = publisher
        self.present = present_item
        self._item_name = item_name
        self._item_json = item_json
        self._texts_by_name: OrderedDict[Hashable, str] = OrderedDict()

    def text(self, shared_item: T) -> str:
        """Return the item as JSON."""
        item_name = self._item_name(shared_item)
        item_text = self._texts_by_name.get(item_name)
        if item_text is None:
            item_text = self._texts_by_name[item_name] = jsonrpc.dumps(self._item_json(shared_item))
            if len(self._texts_by_name) > TEXTS_KEPT:
                self._texts_by_name.popitem(last=False)
        return item_text
