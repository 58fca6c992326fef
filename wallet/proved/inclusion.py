"""Which place an extrinsic has in a block, by what the block's header commits to. Pure."""

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
    """An extrinsic in a final block, and what happened there because of it."""

    block: bytes
    number: int
    index: int
    events: tuple[Any, ...]


def require_whole(header: Header, extrinsics: tuple[bytes, ...]) -> None:
    """RefutedError unless the header commits to these extrinsics, and no others."""
    require(extrinsics_root(extrinsics) == header.extrinsics_root, "the extrinsics are not those of the block's header")


def place_in(header: Header, extrinsics: tuple[bytes, ...], extrinsic_hash: bytes) -> int:
    """Return the place of an extrinsic among those that the header commits to; RefutedError if it is not there."""
    require_whole(header, extrinsics)
    hashes = [blake2_256(raw) for raw in extrinsics]
    if extrinsic_hash not in hashes:
        raise RefutedError(f"the extrinsic 0x{extrinsic_hash.hex()} is not in that block")
    return hashes.index(extrinsic_hash)


def events_of(records: tuple[EventRecord, ...], place: int) -> tuple[Any, ...]:
    """What happened in a block because of the extrinsic at a place."""
    phase = ApplyExtrinsic(place)
    return tuple(record.event for record in records if record.phase == phase)
