"""The keys that a block writes, in order by storage item. A listing costs only the keys that it returns.

Invariant: every written key is here, undone or not. Nothing is removed. `noted` takes keys in the order of writing,
since every write of a block passes through it. They are sorted when something is listed. A key that is undone and
written again is noted again, which costs a listing one step.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

ITEM_PREFIX_BYTES = 32
"""The length of the prefix that all keys of one storage item share."""
INSERTED_MAX = 64
"""The most new keys that are inserted one by one. Above it sorting all of them is cheaper."""


class _ItemKeys:
    """The keys of one storage item."""

    __slots__ = ("new", "ordered")

    def __init__(self) -> None:
        self.new: list[bytes] = []
        self.ordered: list[bytes] = []

    def in_order(self) -> list[bytes]:
        if len(self.new) > INSERTED_MAX:
            self.ordered += self.new
            self.ordered.sort()
        else:
            for new_key in self.new:
                insort(self.ordered, new_key)
        self.new.clear()
        return self.ordered


class WrittenKeys:
    """The written keys of a block."""

    def __init__(self) -> None:
        """Start without keys."""
        self.noted: list[bytes] = []
        self._by_item: dict[bytes, _ItemKeys] = {}

    def under(self, prefix: bytes, start: bytes) -> Iterator[bytes]:
        """Yield the keys that begin with `prefix` and come after `start`, ascending. Keys may be noted meanwhile."""
        ordered = self._ordered(prefix)
        index = bisect_left(ordered, max(prefix, start))
        while index < len(ordered):
            key = ordered[index]
            if not key.startswith(prefix):
                return
            if key > start:
                yield key
            index = bisect_right(ordered, key, index)  # skips repetitions, and keys inserted before it meanwhile

    def clear(self) -> None:
        """Drop all keys."""
        self.noted.clear()
        self._by_item.clear()

    def _ordered(self, prefix: bytes) -> list[bytes]:
        for key in self.noted:
            item_prefix = key[:ITEM_PREFIX_BYTES]
            keys = self._by_item.get(item_prefix)
            if keys is None:
                keys = self._by_item[item_prefix] = _ItemKeys()
            keys.new.append(key)
        self.noted.clear()
        if len(prefix) < ITEM_PREFIX_BYTES:  # of a pallet, or of all: no hook lists that
            return sorted(key for keys in self._by_item.values() for key in keys.in_order())
        listed = self._by_item.get(prefix[:ITEM_PREFIX_BYTES])
        return listed.in_order() if listed is not None else []
