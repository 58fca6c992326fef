"""Blocks that came before their parents.

What always holds: at most `COUNT_MAX` blocks and `BYTES_MAX` bytes are kept, the oldest arrival leaves first; nothing
about them was checked, so each counts for the peer that brought it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

COUNT_MAX = 64
BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Orphan:
    """A block whose parent is not here, and the peer that sent it."""

    block_id: bytes
    parent: bytes
    data: bytes
    peer: str


class Orphans:
    """The bounded pool of them."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[bytes, Orphan] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, block_id: bytes) -> bool:
        return block_id in self._by_id

    def add(self, orphan: Orphan) -> None:
        """Keep a block for later; a known one stays as it is."""
        if orphan.block_id in self._by_id or len(orphan.data) > BYTES_MAX:
            return
        self._by_id[orphan.block_id] = orphan
        self._bytes += len(orphan.data)
        while len(self._by_id) > COUNT_MAX or self._bytes > BYTES_MAX:
            _, oldest = self._by_id.popitem(last=False)
            self._bytes -= len(oldest.data)

    def take_children(self, parent: bytes) -> list[Orphan]:
        """The blocks that waited for `parent`; they are no longer here."""
        found = [orphan for orphan in self._by_id.values() if orphan.parent == parent]
        for orphan in found:
            del self._by_id[orphan.block_id]
            self._bytes -= len(orphan.data)
        return found

    def missing_ancestor(self, block_id: bytes) -> bytes:
        """The lowest block above which every block down to `block_id` is here: what has to be fetched for it."""
        while (orphan := self._by_id.get(block_id)) is not None:
            block_id = orphan.parent
        return block_id
