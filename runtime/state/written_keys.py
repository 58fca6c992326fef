"""The keys that a block writes, in order by storage item: a listing costs what it returns, whatever else was written.

Always: a key that was written is here, undone or not; nothing is removed. `noted` takes keys as they come, since every
write of a block goes through it; they are put in order when something is listed. What is undone and written again is
noted again, and passed at one step.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

ITEM_PREFIX_BYTES = 32
"""What all keys of one storage item begin with."""
INSERTED_MAX = 64
"""So many new keys are put in one by one; beyond it sorting all of them is cheaper."""


class _ItemKeys:
    """Those of one storage item."""

    __slots__ = ("new", "ordered")

    def __init__(self) -> None:
        self.new: list[bytes] = []
        self.ordered: list[bytes] = []

    def in_order(self) -> list[bytes]:
        if len(self.new) > INSERTED_MAX:
            self.ordered += self.new
            self.ordered.sort()
        else:
            for key in self.new:
                insort(self.ordered, key)
        self.new.clear()
        return self.ordered


class WrittenKeys:
    """Grows as a block writes."""

    def __init__(self) -> None:
        """Empty."""
        self.noted: list[bytes] = []
        self._by_item: dict[bytes, _ItemKeys] = {}

    def under(self, prefix: bytes, start: bytes) -> Iterator[bytes]:
        """The keys that begin with `prefix` and come after `start`, ascending; keys may be noted meanwhile."""
        ordered = self._ordered(prefix)
        place = bisect_left(ordered, max(prefix, start))
        while place < len(ordered):
            key = ordered[place]
            if not key.startswith(prefix):
                return
            if key > start:
                yield key
            place = bisect_right(ordered, key, place)  # it may be there again; others may have been put in before it

    def clear(self) -> None:
        """Forget all."""
        self.noted.clear()
        self._by_item.clear()

    def _ordered(self, prefix: bytes) -> list[bytes]:
        for key in self.noted:
            item = key[:ITEM_PREFIX_BYTES]
            keys = self._by_item.get(item)
            if keys is None:
                keys = self._by_item[item] = _ItemKeys()
            keys.new.append(key)
        self.noted.clear()
        if len(prefix) < ITEM_PREFIX_BYTES:  # of a pallet, or of all: no hook asks for that
            return sorted(key for keys in self._by_item.values() for key in keys.in_order())
        listed = self._by_item.get(prefix[:ITEM_PREFIX_BYTES])
        return listed.in_order() if listed is not None else []
