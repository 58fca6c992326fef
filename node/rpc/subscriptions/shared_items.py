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

    async def text(self, hold: Callable[[int], None]) -> str | None:
        """Return the whole text, or its beginning if that alone is too long; None without pieces.

        `hold` counts the bytes until the text is returned.
        """
        found: list[str] = []
        size = 0
        try:
            async with aclosing(self.pieces()) as pieces:
                async for piece in pieces:
                    found.append(piece)
                    size += len(piece)
                    hold(len(piece))
                    if size > MAX_RESPONSE_BYTES:
                        break
            return "".join(found) if found else None
        finally:
            hold(-size)


class SharedItems(Generic[T]):
    """The present item, and each later published one."""

    def __init__(
        self,
        publisher: Publisher[T],
        present: Callable[[], T],
        name: Callable[[T], Hashable],
        to_json: Callable[[T], Json],
    ) -> None:
        """Create it; `name` identifies an item, `to_json` returns the client's form."""
        self.publisher = publisher
        self.present = present
        self._name = name
        self._to_json = to_json
        self._texts: OrderedDict[Hashable, str] = OrderedDict()

    def text(self, item: T) -> str:
        """Return the item as JSON."""
        name = self._name(item)
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = jsonrpc.dumps(self._to_json(item))
            if len(self._texts) > TEXTS_KEPT:
                self._texts.popitem(last=False)
        return text
