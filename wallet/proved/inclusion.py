"""The place of an extrinsic in a block, proved by the block's header. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runtime.blocks.block import Header, extrinsics_root
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import ApplyExtrinsic
from runtime.pallets.system import EventRecord
from wallet.proved.refutation import RefutedError, require


@dataclass(frozen=True, slots=True)
class Inclusion:
    """An extrinsic in a final block, and its events."""

    block: bytes
    number: int
    index: int
    events: tuple[Any, ...]


def require_whole(header: Header, extrinsics: tuple[bytes, ...]) -> None:
    """Raise RefutedError unless the header commits to exactly these extrinsics."""
    require(extrinsics_root(extrinsics) == header.extrinsics_root, "the extrinsics are not those of the block's header")


def place_in(header: Header, extrinsics: tuple[bytes, ...], extrinsic_hash: bytes) -> int:
    """Return the place of an extrinsic in the header's block. Raise RefutedError if the block does not hold it."""
    require_whole(header, extrinsics)
    extrinsic_hashes = [blake2_256(extrinsic) for extrinsic in extrinsics]
    if extrinsic_hash not in extrinsic_hashes:
        raise RefutedError(f"the extrinsic 0x{extrinsic_hash.hex()} is not in that block")
    return extrinsic_hashes.index(extrinsic_hash)


def events_of(records: tuple[EventRecord, ...], extrinsic_index: int) -> tuple[Any, ...]:
    """Return the events of a block that belong to the extrinsic at a place."""
    phase = ApplyExtrinsic(extrinsic_index)
    return tuple(record.event for record in records if record.phase == phase)
