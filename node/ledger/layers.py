"""A block's state as changes over its parent's state.

Layers are immutable and shared. Two children of one block lie over the same layer, and dropping a block drops its layer
only. Below the lowest layer is the state of a final block.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from heapq import merge

from runtime.state.overlay import Changes, StateReader
from runtime.state.trie import Trie


class DiffLayer:
    """A `runtime.state.overlay.Reader`: `changes` over `parent`."""

    def __init__(self, parent: StateReader, changes: Changes, trie: Trie | None = None) -> None:
        """Create a layer from immutable arguments; `trie` is that of the resulting state, if at hand."""
        self.parent = parent
        self.changes = changes
        self.trie = trie

    def get(self, key: bytes, /) -> bytes | None:
        """Return the value under `key`."""
        if key in self.changes:
            return self.changes[key]
        # A node that catches up has as many layers as its epoch has blocks, perhaps 1,800, before any block is final.
        return self.parent.get(key) if self.trie is None else self.trie.get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """Yield the keys that begin with `prefix` and come after `start`, ascending and lazily."""
        layers, base = self._above_base()
        last = None
        for key in merge(base.keys(prefix, start), *(layer.own_keys(prefix, start) for layer in layers)):
            if key != last and _is_there(key, layers):
                yield key
            last = key

    def _above_base(self) -> tuple[list[DiffLayer], StateReader]:
        """Return the layers to search, this one first, and their base: a trie, or a state without layers."""
        layers: list[DiffLayer] = []
        base: StateReader = self
        while isinstance(base, DiffLayer):  # one merge: nested generators would reach Python's recursion limit
            if base.trie is not None:
                return layers, base.trie
            layers.append(base)
            base = base.parent
        return layers, base

    def own_keys(self, prefix: bytes, start: bytes) -> Iterator[bytes]:
        """Yield the changed keys that begin with `prefix` and come after `start`, found by binary search."""
        for position in range(bisect_left(self._sorted_keys, max(prefix, start)), len(self._sorted_keys)):
            key = self._sorted_keys[position]
            if not key.startswith(prefix):
                return
            if key > start:
                yield key

    @cached_property
    def _sorted_keys(self) -> list[bytes]:
        return sorted(self.changes)


def _is_there(key: bytes, layers: list[DiffLayer]) -> bool:
    for layer in layers:
        if key in layer.changes:
            return layer.changes[key] is not None
    return True
