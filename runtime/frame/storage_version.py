"""The version of a pallet's storage, as the SDK stores it, and the migration from older versions.

A release that changes the form of stored values declares a higher `storage_version`, and converts the old form in
`migrate`. The first block that it executes on an older state starts with that migration, before any hook. A new chain
starts with the versions of its program. Nodes thereby change programs at an agreed height.
"""

from collections.abc import Iterable
from typing import ClassVar, Protocol

from runtime.cryptography.hashing import twox_128
from runtime.encoding.types import Weight
from runtime.frame.storage import StateCorrupted
from runtime.state.overlay import Overlay

VERSION_BYTES = 2
_ITEM = b":__STORAGE_VERSION__:"


class Versioned(Protocol):
    """The attributes of a pallet that this module uses."""

    storage_version: ClassVar[int]
    overlay: Overlay

    def migrate(self, found: int) -> Weight:
        """Convert storage of an older version into the current form. Return the weight."""
        ...


def version_key(pallet_name: str) -> bytes:
    """Return the storage key of a pallet's storage version."""
    return twox_128(pallet_name.encode()) + twox_128(_ITEM)


def version_value(storage_version: int) -> bytes:
    """Return a version as stored bytes."""
    return storage_version.to_bytes(VERSION_BYTES, "little")


def migrate(pallets: Iterable[Versioned]) -> Weight | None:
    """Convert the storage of each pallet into its declared form. Return the weight, None if nothing changed.

    Raise StateCorrupted if a newer program has written the storage.
    """
    weight = None
    for pallet in pallets:
        declared = pallet.storage_version
        # Version 0 is never stored (`Runtime.genesis`).
        if not declared:
            continue
        key = version_key(type(pallet).__name__)
        stored = int.from_bytes(pallet.overlay.raw(key) or b"", "little")
        # An older program must not misread a newer form.
        if stored > declared:
            raise StateCorrupted(f"{type(pallet).__name__}: storage version {stored} needs a newer program")
        if stored < declared:
            weight = (weight or Weight()) + pallet.migrate(stored)
            pallet.overlay.store_raw(key, version_value(declared))
    return weight
