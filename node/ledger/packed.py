"""Changes of a state in one value of the database: each key and value behind its length."""

from __future__ import annotations

import struct

from runtime.state.overlay import Changes

_LENGTH = struct.Struct("<I")
_ABSENT = 0xFFFF_FFFF


def pack_changes(changes: Changes) -> bytes:
    """In the order of the keys."""
    out = bytearray()
    for key, value in sorted(changes.items()):
        out += _LENGTH.pack(len(key)) + key + _LENGTH.pack(_ABSENT if value is None else len(value)) + (value or b"")
    return bytes(out)


def unpack_changes(packed: bytes) -> dict[bytes, bytes | None]:
    """What was packed."""
    changes: dict[bytes, bytes | None] = {}
    at = 0
    while at < len(packed):
        end = at + 4 + _LENGTH.unpack_from(packed, at)[0]
        key, size = packed[at + 4 : end], _LENGTH.unpack_from(packed, end)[0]
        at = end + 4 + (0 if size == _ABSENT else size)
        changes[key] = None if size == _ABSENT else packed[end + 4 : at]
    return changes
