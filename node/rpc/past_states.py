"""States after recent final blocks: reads of the present state with the later blocks undone.

Invariant: a read of any kept block searches at most `DEPTH_MAX` sets of changes. The changes of whole stretches of
blocks are merged once and kept.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property

from runtime.state.overlay import Changes, StateReader

STRETCH = 16  # blocks
KEPT = 256  # blocks; the same as the node keeps
DEPTH_MAX = KEPT // STRETCH + 2 * STRETCH


class Undo:
    """The changes from one state to an earlier one."""

    def __init__(self, changes: Changes) -> None:
        """Create it; the changes must not be modified later."""
        self.changes = changes

    def keys(self, prefix: bytes, start: bytes) -> Iterator[bytes]:
        """Yield the changed keys that begin with `prefix` and come after `start`, in order."""
        for key_index in range(bisect_left(self._ordered_keys, max(prefix, start)), len(self._ordered_keys)):
            key = self._ordered_keys[key_index]
            if not key.startswith(prefix):
                return
            if key > start or not start:
                yield key

    @cached_property
    def _ordered_keys(self) -> list[bytes]:
        return sorted(self.changes)


class PastState:
    """A `StateReader`: `undos` over the present state, the one that reaches furthest back first."""

    def __init__(self, present_state: StateReader, undos: list[Undo]) -> None:
        """Create a reader that is valid until the present state changes."""
        self._present_state = present_state
        self._undos = undos

    @property
    def depth(self) -> int:
        """The number of sets of changes that a read searches."""
        return len(self._undos)

    def get(self, key: bytes, /) -> bytes | None:
        """Return the value under `key`."""
        for undo in self._undos:
            if key in undo.changes:
                return undo.changes[key]
        return self._present_state.get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """Yield the keys that begin with `prefix` and come after `start`, ascending and lazily."""
        streams = [
            self._present_state.keys(prefix, start),
            *(undo.keys(prefix, start) for undo in self._undos),
        ]
        last: bytes | None = None
        for key in heapq.merge(*streams):
            if key != last and self.get(key) is not None:
                yield key
            last = key


class PastStates:
    """The undo changes of the last final blocks, by height."""

    def __init__(self, present_state: StateReader) -> None:
        """Create it; `present_state` always reads the state after the last final block."""
        self._present_state = present_state
        self._undos: dict[int, Undo] = {}
        self._joined_by_height: dict[int, Undo] = {}  # by the first height of a whole stretch
        self._child_heights: dict[bytes, int] = {}  # the height of the child, by the parent's id

    def add(self, height: int, parent_id: bytes, changes: Changes) -> None:
        """Add the undo changes of the block at `height`."""
        self._undos[height] = Undo(changes)
        self._child_heights[parent_id] = height
        self._drop_block(height - KEPT)

    def undone(self, height: int) -> Changes | None:
        """Return the changes that undo the block at `height`: for each key that it wrote, the value before."""
        undo = self._undos.get(height)
        return None if undo is None else undo.changes

    def reader(self, block_id: bytes) -> PastState | None:
        """Return the state after a block, or None if it is not kept."""
        height = self._child_heights.get(block_id)
        if height is None or height not in self._undos:
            return None
        undos: list[Undo] = []
        while height in self._undos:
            undo, block_count = self._undo_from(height)
            undos.append(undo)
            height += block_count
        return PastState(self._present_state, undos)

    def _undo_from(self, height: int) -> tuple[Undo, int]:
        """Return the undo changes of the blocks from `height` on, and their number: a whole stretch, or one."""
        stretch = range(height, height + STRETCH)
        if height % STRETCH or stretch[-1] not in self._undos:
            return self._undos[height], 1
        if height not in self._joined_by_height:
            joined: dict[bytes, bytes | None] = {}
            for block_height in reversed(stretch):
                joined.update(self._undos[block_height].changes)
            self._joined_by_height[height] = Undo(joined)
        return self._joined_by_height[height], STRETCH

    def _drop_block(self, height: int) -> None:
        """Drop the block at `height`, and a stretch that began there."""
        if self._undos.pop(height, None) is not None:
            self._joined_by_height.pop(height - height % STRETCH, None)
            self._child_heights = {
                block_id: child_height
                for block_id, child_height in self._child_heights.items()
                if child_height != height
            }
