"""The copies of inputs that a provider keeps, by purpose, within the store's limit of bytes.

A copy serves others: later voters and racers find the input here if the customer no longer offers it. The provider's
own work does not need it: current work is in memory, and answers are in the journal.

Invariants:

* An input is removed once no unit on the chain needs it.
* If space is needed, unneeded inputs go first, then inputs used only to check others, in favour of this provider's own
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
    """Used to check the answers of others."""
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
        self._blob_store = store
        self._kept: dict[bytes, _Kept] = {}
        self._next_turn = 0

    def name(self, content_root: bytes, use: InputUse, unit_id: bytes | None) -> None:
        """Note the purpose of an input: a unit or, without one, a task."""
        kept = self._kept.setdefault(content_root, _Kept(use))
        # An input may serve a vote first and a race later. The more important purpose decides its removal.
        kept.use = max(kept.use, use)
        kept.blobs.add(content_root)
        if unit_id is not None:
            kept.units.add(unit_id)

    def recall(self, content_root: bytes, use: InputUse, unit_id: bytes) -> None:
        """Name an input that an earlier process kept, with all its pieces."""
        self.name(content_root, use, unit_id)
        self._kept[content_root].blobs.update(pieces_of(self._blob_store.get(content_root) or b""))

    def keep(self, content_root: bytes, blob: bytes) -> None:
        """Keep a blob of a named input. Raise StoreFullError if there is no space even after removals."""
        kept = self._kept[content_root]
        kept.blobs.add(address_of(blob))
        try:
            self._blob_store.keep(blob)
        except StoreFullError:
            self._make_room(len(blob), kept.use)
            self._blob_store.keep(blob)

    def units_in_turn(self, unit_count: int, excluded_units: Collection[bytes]) -> list[bytes]:
        """Return up to `unit_count` units with kept inputs, except `excluded_units`.

        Repeated calls go through all units.
        """
        waiting_units = list(
            dict.fromkeys(
                unit_id for kept in self._kept.values() for unit_id in kept.units if unit_id not in excluded_units
            )
        )
        # Each unit costs a read of the chain, so each call looks at a few and the next call continues from there.
        first_index = self._next_turn % len(waiting_units) if waiting_units else 0
        self._next_turn = first_index + unit_count
        return [*waiting_units[first_index:], *waiting_units[:first_index]][:unit_count]

    def release(self, ended_units: Collection[bytes]) -> None:
        """Remove the inputs that only these ended units needed."""
        if not self._kept:
            return
        stored = self._blob_store.inputs
        for content_root, kept in list(self._kept.items()):
            was_for_units = bool(kept.units)
            kept.units.difference_update(ended_units)
            if was_for_units and not kept.units:
                del self._kept[content_root]
                # Inputs may share a piece, which stays as long as any of them needs it.
                for address in kept.blobs - self._needed(self._kept.values()):
                    self._blob_store.drop_input(address)
            elif not was_for_units and kept.blobs.isdisjoint(stored):  # a task's input whose life has ended
                del self._kept[content_root]

    def _make_room(self, size_bytes: int, use: InputUse) -> None:
        """Remove blobs to make room: first unneeded ones, then less important ones, the oldest first."""
        stored = self._blob_store.inputs
        needed_blobs = self._needed(self._kept.values())
        needed_more = self._needed(kept for kept in self._kept.values() if kept.use >= use)
        bytes_limit = self._blob_store.input_bytes - size_bytes
        for address in sorted(set(stored) - needed_more, key=lambda each: (each in needed_blobs, stored[each])):
            self._blob_store.drop_input(address)
            if self._blob_store.input_bytes <= bytes_limit:
                return

    @staticmethod
    def _needed(inputs: Iterable[_Kept]) -> set[bytes]:
        return {address for kept in inputs for address in kept.blobs}
