"""Which form a pallet's storage has, as the SDK writes it, and what brings an older one into the form of now.

A program that stores something otherwise than the one before declares a higher `storage_version` and says in `migrate`
what becomes of what it finds. The first block that it executes on an older state begins with that, before any hook; a
chain begins with the versions of its program. So nodes change programs at a height that they agree on.
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
    """A pallet, as far as it matters here."""

    storage_version: ClassVar[int]
    overlay: Overlay

    def migrate(self, found: int) -> Weight:
        """Bring storage of an older version into the form of now."""
        ...


def version_key(pallet: str) -> bytes:
    """Where the version of a pallet's storage lies."""
    return twox_128(pallet.encode()) + twox_128(_ITEM)


def version_value(version: int) -> bytes:
    """A version as it is stored."""
    return version.to_bytes(VERSION_BYTES, "little")


def migrate(pallets: Iterable[Versioned]) -> Weight | None:
    """Bring the storage of each pallet into the form that it declares; what that weighed, None where nothing was to do.

    StateCorrupted where a newer program has written it.
    """
    spent = None
    for pallet in pallets:
        declared = pallet.storage_version
        if not declared:
            continue
        key = version_key(type(pallet).__name__)
        found = int.from_bytes(pallet.overlay.raw(key) or b"", "little")
        if found > declared:
            raise StateCorrupted(f"{type(pallet).__name__}: storage version {found} is of a newer program")
        if found < declared:
            spent = (spent or Weight()) + pallet.migrate(found)
            pallet.overlay.store_raw(key, version_value(declared))
    return spent
