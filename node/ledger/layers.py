"""A block's state as what it changed, over its parent's state.

Layers are immutable and shared: two children of one block lie over the same layer, and dropping a block drops its
layer and nothing else. Below the lowest one lies the state of a final block.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property

from runtime.state.overlay import Changes, StateReader
from runtime.state.trie import Trie


class DiffLayer:
    """A `runtime.state.overlay.Reader`: `changes` over `parent`."""

    def __init__(self, parent: StateReader, changes: Changes, trie: Trie | None = None) -> None:
        """None of them may change from now on; `trie`, where it is at hand, is that of the state with the changes."""
        self.parent = parent
        self.changes = changes
        self._trie = trie

    def get(self, key: bytes, /) -> bytes | None:
        """The value under `key`."""
        if key in self.changes:
            return self.changes[key]
        # A node that catches up has as many layers as its epoch has blocks, 1,800 perhaps, before any becomes final.
        return self.parent.get(key) if self._trie is None else self._trie.get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """The keys that begin with `prefix` and come after `start`, ascending."""
        own = self._own_keys(prefix, start)
        added = [key for key in own if self.changes[key] is not None]
        position = 0
        for key in self.parent.keys(prefix, start):
            while position < len(added) and added[position] < key:
                yield added[position]
                position += 1
            if key not in self.changes:
                yield key
        yield from added[position:]

    def _own_keys(self, prefix: bytes, start: bytes) -> list[bytes]:
        """The changed keys that begin with `prefix` and come after `start`, found among very many others."""
        found: list[bytes] = []
        for position in range(bisect_left(self._sorted, max(prefix, start)), len(self._sorted)):
            key = self._sorted[position]
            if not key.startswith(prefix):
                break
            if key > start:
                found.append(key)
        return found

    @cached_property
    def _sorted(self) -> list[bytes]:
        return sorted(self.changes)
