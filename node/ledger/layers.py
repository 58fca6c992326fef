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
        diff_layers, base_state = self._above_base()
        last_key = None
        for next_key in merge(
            base_state.keys(prefix, start), *(diff_layer.own_keys(prefix, start) for diff_layer in diff_layers)
        ):
            if next_key != last_key and _is_there(next_key, diff_layers):
                yield next_key
            last_key = next_key

    def _above_base(self) -> tuple[list[DiffLayer], StateReader]:
        """Return the layers to search, this one first, and their base: a trie, or a state without layers."""
        diff_layers: list[DiffLayer] = []
        base_state: StateReader = self
        while isinstance(base_state, DiffLayer):  # one merge: nested generators would reach Python's recursion limit
            if base_state.trie is not None:
                return diff_layers, base_state.trie
            diff_layers.append(base_state)
            base_state = base_state.parent
        return diff_layers, base_state

    def own_keys(self, prefix: bytes, start: bytes) -> Iterator[bytes]:
        """Yield the changed keys that begin with `prefix` and come after `start`, found by binary search."""
        for position in range(bisect_left(self._sorted_keys, max(prefix, start)), len(self._sorted_keys)):
            changed_key = self._sorted_keys[position]
            if not changed_key.startswith(prefix):
                return
            if changed_key > start:
                yield changed_key

    @cached_property
    def _sorted_keys(self) -> list[bytes]:
        return sorted(self.changes)


def _is_there(key: bytes, diff_layers: list[DiffLayer]) -> bool:
    for diff_layer in diff_layers:
        if key in diff_layer.changes:
            return diff_layer.changes[key] is not None
    return True
