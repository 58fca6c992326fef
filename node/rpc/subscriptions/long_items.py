"""Items that take long to work out, and much memory: only when their client has room for them, and in pieces.

What always holds: what there is of an item is counted as held for its client; one that becomes longer than a response
may be is given up where it does.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from node.rpc.jsonrpc import MAX_RESPONSE_BYTES


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
