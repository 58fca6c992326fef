"""The copies of inputs that a provider keeps, by purpose, within the store's limit of bytes.

A copy serves others: later judges and racers find the input here if the customer no longer offers it. The provider's
own work does not need it: current work is in memory, and answers are in the journal.

Invariants:

* An input is removed once no unit on the chain needs it.
* If space is needed, unneeded inputs go first, then inputs used only to judge, in favour of this provider's own
  answers.
* An input that does not fit is not kept, and the work continues.
* A blob that a customer uploaded to this store is a stranger's blob, not a kept input.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from gpu_tasks.data.pieces import pieces_of
from gpu_tasks.data.sealing import address_of
from gpu_tasks.provider.blobs.store import BlobStore, StoreFullError


class InputUse(IntEnum):
    """The purpose of an input, the least important first."""

    LOOKED_AT = 0
    """Used to judge or audit the answers of others."""
    ANSWERED = 1
    """Used for a race or a task. Others will check this provider's result."""


@dataclass(slots=True)
class _Kept:
    """The blobs of one input, and their purposes."""

    use: InputUse
    units: set[bytes] = field(default_factory=set)
    blobs: set[bytes] = field(default_factory=set)


class KeptInputs:
    """Kept inputs, by the blob that names each.

    A task's input belongs to no unit and stays for its life in the store.
    """

    def __init__(self, store: BlobStore) -> None:
        """Blobs that an earlier process kept have no purpose until they are named again."""
        self._store = store
        self._kept: dict[bytes, _Kept] = {}
        self._turn = 0

    def name(self, root: bytes, use: InputUse, unit: bytes | None) -> None:
        """Note the purpose of an input: a unit or, without one, a task."""
        kept = self._kept.setdefault(root, _Kept(use))
        # An input may serve a judgement first and a race later. The more important purpose decides its removal.
        kept.use = max(kept.use, use)
        kept.blobs.add(root)
        if unit is not None:
            kept.units.add(unit)

    def recall(self, root: bytes, use: InputUse, unit: bytes) -> None:
        """Name an input that an earlier process kept, with all its pieces."""
        self.name(root, use, unit)
        self._kept[root].blobs.update(pieces_of(self._store.get(root) or b""))

    def keep(self, root: bytes, blob: bytes) -> None:
        """Keep a blob of a named input. Raise StoreFullError if there is no space even after removals."""
        kept = self._kept[root]
        kept.blobs.add(address_of(blob))
        try:
            self._store.keep(blob)
        except StoreFullError:
            self._make_room(len(blob), kept.use)
            self._store.keep(blob)

    def units_in_turn(self, count: int, but: Collection[bytes]) -> list[bytes]:
        """Return up to `count` units with kept inputs, except `but`. Repeated calls go through all units."""
        units = list(dict.fromkeys(unit for kept in self._kept.values() for unit in kept.units if unit not in but))
        # Each unit costs a read of the chain, so each call looks at a few and the next call continues from there.
        begin = self._turn % len(units) if units else 0
        self._turn = begin + count
        return [*units[begin:], *units[:begin]][:count]

    def release(self, over: Collection[bytes]) -> None:
        """Remove the inputs that only these ended units needed."""
        if not self._kept:
            return
        there = self._store.inputs
        for root, kept in list(self._kept.items()):
            was_for_units = bool(kept.units)
            kept.units.difference_update(over)
            if was_for_units and not kept.units:
                del self._kept[root]
                # Inputs may share a piece, which stays as long as any of them needs it.
                for address in kept.blobs - self._needed(self._kept.values()):
                    self._store.drop_input(address)
            elif not was_for_units and kept.blobs.isdisjoint(there):  # a task's input whose life has ended
                del self._kept[root]

    def _make_room(self, size: int, use: InputUse) -> None:
        """Remove blobs to make room: first unneeded ones, then less important ones, the oldest first."""
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
