"""States above the last final one, as immutable diffs.

What always holds: a `Layer` never changes, so many may lie over one base, and dropping one is free.  It holds every change since
the base, its ancestors' included, so that a read costs one look-up however long the chain above the final block is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping

from runtime.state import Reader


class Layer:
    """A `runtime.state.Reader`: `base` with `changes` over it."""

    __slots__ = ("_base", "_changes", "_sorted")

    def __init__(self, base: Reader, changes: Mapping[bytes, bytes | None] | None = None) -> None:
        """Lie over `base`; `changes` must not change afterwards."""
        self._base = base
        self._changes: Mapping[bytes, bytes | None] = {} if changes is None else changes
        self._sorted: list[bytes] | None = None

    def over(self, changes: Mapping[bytes, bytes | None]) -> Layer:
        """The state after `changes` to this one."""
        return Layer(self._base, {**self._changes, **changes})

    def get(self, key: bytes, /) -> bytes | None:
        """The value under `key`."""
        if key in self._changes:
            return self._changes[key]
        return self._base.get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """The keys that begin with `prefix` and come after `start`, ascending."""
        if self._sorted is None:
            self._sorted = sorted(self._changes)
        mine = self._sorted
        position = bisect_left(mine, prefix)
        if start:
            position = max(position, bisect_right(mine, start))
        for key in self._base.keys(prefix, start):
            while position < len(mine) and mine[position] < key:
                if mine[position].startswith(prefix) and self._changes[mine[position]] is not None:
                    yield mine[position]
                position += 1
            if key not in self._changes:
                yield key
        while position < len(mine) and mine[position].startswith(prefix):
            if self._changes[mine[position]] is not None:
                yield mine[position]
            position += 1
