"""What every subscriber of a kind is told in the same words: they are found once for all of them."""

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
"""Of the items told last: a new head is written out once, not once for each of 2,600 subscriptions to it."""


# Items that take long to work out, and much memory: only when their client has room for them, and in pieces.
#
# Always: what there is of an item is counted as held for its client; one that becomes longer than a response may be is
# given up where it does.
@dataclass(frozen=True, slots=True)
class LongItem:
    """An item as JSON; no piece at all if there is nothing to tell."""

    pieces: Callable[[], AsyncGenerator[str, None]]

    async def text(self, hold: Callable[[int], None]) -> str | None:
        """The whole, or its beginning where that alone is too long; `hold` counts what there is until it is given."""
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
    """The present item, and each one that is published from then on."""

    def __init__(
        self,
        publisher: Publisher[T],
        present: Callable[[], T],
        name: Callable[[T], Hashable],
        to_json: Callable[[T], Json],
    ) -> None:
        """`name` tells items apart; `to_json` is what a client is shown."""
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
