"""A state in memory that changes in place: what a block wrote is put in, and nothing is copied or sorted anew.

Always: it holds no entry whose value is None; the keys of each storage item lie sorted.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from runtime.state.overlay import Changes
from runtime.state.written_keys import ITEM_PREFIX_BYTES


class KeptState:
    """A `StateReader`; it changes between blocks only, when no execution lies over it."""

    def __init__(self, values: dict[bytes, bytes]) -> None:
        """Begin with these entries."""
        self.values = dict(values)
        self._by_item: dict[bytes, list[bytes]] = {}
        for key in sorted(values):
            self._by_item.setdefault(key[:ITEM_PREFIX_BYTES], []).append(key)

    def get(self, key: bytes, /) -> bytes | None:
        """The value under `key`."""
        return self.values.get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """The keys that begin with `prefix`, which is an item's or longer, and come after `start`, ascending."""
        assert len(prefix) >= ITEM_PREFIX_BYTES, "pallets list entries of one item"
        listed = self._by_item.get(prefix[:ITEM_PREFIX_BYTES], [])
        first = bisect_left(listed, prefix) if start < prefix else bisect_right(listed, start)
        for position in range(first, len(listed)):
            key = listed[position]
            if not key.startswith(prefix):
                return
            yield key

    def apply(self, changes: Changes) -> None:
        """Put in what a block wrote."""
        for key, value in changes.items():
            is_there = key in self.values
            if value is None:
                if is_there:
                    del self.values[key]
                    listed = self._by_item[key[:ITEM_PREFIX_BYTES]]
                    del listed[bisect_left(listed, key)]
            else:
                if not is_there:
                    insort(self._by_item.setdefault(key[:ITEM_PREFIX_BYTES], []), key)
                self.values[key] = value
