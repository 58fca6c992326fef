"""States after recent final blocks, read as the present one with what came since undone.

Invariant: however far back, a read looks at no more than `DEPTH_MAX` sets of changes: those of whole stretches
of blocks are joined once and kept.
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
    """What turns one state into an earlier one."""

    def __init__(self, changes: Changes) -> None:
        """The changes must not change any more."""
        self.changes = changes

    def keys(self, prefix: bytes, start: bytes) -> Iterator[bytes]:
        """Those that begin with `prefix` and come after `start`, in order."""
        for place in range(bisect_left(self._ordered, max(prefix, start)), len(self._ordered)):
            key = self._ordered[place]
            if not key.startswith(prefix):
                return
            if key > start or not start:
                yield key

    @cached_property
    def _ordered(self) -> list[bytes]:
        return sorted(self.changes)


class PastState:
    """A `StateReader`: `undos` over the present state, the one that reaches furthest back first."""

    def __init__(self, present: StateReader, undos: list[Undo]) -> None:
        """Good until the present state moves on."""
        self._present = present
        self._undos = undos

    @property
    def depth(self) -> int:
        """How many sets of changes a read looks at."""
        return len(self._undos)

    def get(self, key: bytes, /) -> bytes | None:
        """Return the value under `key`."""
        for undo in self._undos:
            if key in undo.changes:
                return undo.changes[key]
        return self._present.get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """Yield the keys that begin with `prefix` and come after `start`, ascending; no more is done than is taken."""
        sources = [self._present.keys(prefix, start), *(undo.keys(prefix, start) for undo in self._undos)]
        last: bytes | None = None
        for key in heapq.merge(*sources):
            if key != last and self.get(key) is not None:
                yield key
            last = key


class PastStates:
    """What undoes the last final blocks, by height."""

    def __init__(self, present: StateReader) -> None:
        """`present` is the state after the last final block, always."""
        self._present = present
        self._undos: dict[int, Undo] = {}
        self._joined: dict[int, Undo] = {}  # by the first height of a whole stretch
        self._heights: dict[bytes, int] = {}  # of the block above the one of this id

    def add(self, height: int, parent_id: bytes, changes: Changes) -> None:
        """What undoes the block at `height`."""
        self._undos[height] = Undo(changes)
        self._heights[parent_id] = height
        self._drop(height - KEPT)

    def undone(self, height: int) -> Changes | None:
        """Return the changes that undo the block at `height`: for each key that it wrote, the value before."""
        undo = self._undos.get(height)
        return None if undo is None else undo.changes

    def reader(self, block_id: bytes) -> PastState | None:
        """Return the state after a block, or None if it is not kept."""
        height = self._heights.get(block_id)
        if height is None or height not in self._undos:
            return None
        undos: list[Undo] = []
        while height in self._undos:
            undo, blocks = self._from(height)
            undos.append(undo)
            height += blocks
        return PastState(self._present, undos)

    def _from(self, height: int) -> tuple[Undo, int]:
        """What undoes the blocks from `height` on, and how many these are: a whole stretch, or one."""
        stretch = range(height, height + STRETCH)
        if height % STRETCH or stretch[-1] not in self._undos:
            return self._undos[height], 1
        if height not in self._joined:
            joined: dict[bytes, bytes | None] = {}
            for number in reversed(stretch):
                joined.update(self._undos[number].changes)
            self._joined[height] = Undo(joined)
        return self._joined[height], STRETCH

    def _drop(self, height: int) -> None:
        """Forget the block at `height`, and a stretch that began there."""
        if self._undos.pop(height, None) is not None:
            self._joined.pop(height - height % STRETCH, None)
            self._heights = {block: above for block, above in self._heights.items() if above != height}
