"""Which inputs a provider keeps a copy of, for which work, within the store's limit of bytes.

A copy is for others: who judges or races later finds the input here where its customer shows it no more. The own work
does not hang on it: what is worked on is in memory, and what was answered is in the journal. Always: an input goes once
no unit on the chain needs it; where room is wanted what nobody needs goes first, then what was only looked at, for the
sake of what this provider answers; what does not fit is not kept, and the work goes on. What a customer brought to this
store is a stranger's blob, and none of these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from gpu_tasks.data.pieces import pieces_of
from gpu_tasks.data.sealing import address_of
from gpu_tasks.provider.blobs.store import BlobStore, StoreFullError


class InputUse(IntEnum):
    """What an input is used for, the least first."""

    LOOKED_AT = 0
    """To judge or to audit what others answered."""
    ANSWERED = 1
    """For a race, or a task: others look at what this provider makes of it."""


@dataclass(slots=True)
class _Kept:
    """The blobs of one input, and what they are kept for."""

    use: InputUse
    units: set[bytes] = field(default_factory=set)
    blobs: set[bytes] = field(default_factory=set)


class KeptInputs:
    """Inputs by the blob that names them; those of tasks, which are kept for no unit, stay for their life."""

    def __init__(self, store: BlobStore) -> None:
        """What an earlier process kept is for nothing, until it is named again."""
        self._store = store
        self._kept: dict[bytes, _Kept] = {}
        self._turn = 0

    def name(self, root: bytes, use: InputUse, unit: bytes | None) -> None:
        """An input is worked on from now on, for a unit or, without one, for a task."""
        kept = self._kept.setdefault(root, _Kept(use))
        kept.use = max(kept.use, use)
        kept.blobs.add(root)
        if unit is not None:
            kept.units.add(unit)

    def recall(self, root: bytes, use: InputUse, unit: bytes) -> None:
        """Name an input that an earlier process kept, with all its pieces."""
        self.name(root, use, unit)
        self._kept[root].blobs.update(pieces_of(self._store.get(root) or b""))

    def keep(self, root: bytes, blob: bytes) -> None:
        """Keep a blob of an input that was named; StoreFullError where there is no room even after all that may go."""
        kept = self._kept[root]
        kept.blobs.add(address_of(blob))
        try:
            self._store.keep(blob)
        except StoreFullError:
            self._make_room(len(blob), kept.use)
            self._store.keep(blob)

    def units_in_turn(self, count: int, but: Collection[bytes]) -> list[bytes]:
        """Some units for which inputs are kept, others with each call until all were told."""
        units = list(dict.fromkeys(unit for kept in self._kept.values() for unit in kept.units if unit not in but))
        begin = self._turn % len(units) if units else 0
        self._turn = begin + count
        return [*units[begin:], *units[:begin]][:count]

    def release(self, over: Collection[bytes]) -> None:
        """These units need no input any more."""
        if not self._kept:
            return
        there = self._store.inputs
        for root, kept in list(self._kept.items()):
            was_for_units = bool(kept.units)
            kept.units.difference_update(over)
            if was_for_units and not kept.units:
                del self._kept[root]
                for address in kept.blobs - self._needed(self._kept.values()):
                    self._store.drop_input(address)
            elif not was_for_units and kept.blobs.isdisjoint(there):  # of a task, and its life has ended
                del self._kept[root]

    def _make_room(self, size: int, use: InputUse) -> None:
        """Remove what matters less, as far as it takes: first what nobody needs, then what is of less use; by age."""
        there = self._store.inputs
        needed = self._needed(self._kept.values())
        needed_more = self._needed(kept for kept in self._kept.values() if kept.use >= use)
        limit = self._store.input_bytes - size
        for address in sorted(set(there) - needed_more, key=lambda each: (each in needed, there[each])):
            self._store.drop_input(address)
            if self._store.input_bytes <= limit:
                return

    @staticmethod
    def _needed(kept: Iterable[_Kept]) -> set[bytes]:
        return {address for each in kept for address in each.blobs}
