"""A block's state as what it changed, over its parent's state.

Layers are immutable and shared: two children of one block lie over the same layer, and dropping a block drops its
layer and nothing else. Below the lowest one lies the state of a final block.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from runtime.state import Changes, Reader


class Layer:
    """A `runtime.state.Reader`: `changes` over `parent`."""

    def __init__(self, parent: Reader, changes: Changes) -> None:
        """Neither may change from now on."""
        self.parent = parent
        self.changes = changes

    def get(self, key: bytes, /) -> bytes | None:
        """The value under `key`."""
        if key in self.changes:
            return self.changes[key]
        return self.parent.get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """The keys that begin with `prefix` and come after `start`, ascending."""
        own = [key for key in self._sorted if key > start and key.startswith(prefix)]
        added = [key for key in own if self.changes[key] is not None]
        position = 0
        for key in self.parent.keys(prefix, start):
            while position < len(added) and added[position] < key:
                yield added[position]
                position += 1
            if key not in self.changes:
                yield key
        yield from added[position:]

    @cached_property
    def _sorted(self) -> list[bytes]:
        return sorted(self.changes)
