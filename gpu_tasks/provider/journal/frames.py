"""Records one behind the other in a file that is only appended to, so that a crash tears the last one at most.

file = record*        record = length u32 || blake2-128 of the body || body
"""

from __future__ import annotations

from runtime.cryptography.hashing import blake2_128

HEADER_BYTES = 20


def framed(body: bytes) -> bytes:
    """A record with this body."""
    return len(body).to_bytes(4, "little") + blake2_128(body) + body


def end_of(data: bytes, begin: int, bytes_max: int) -> int | None:
    """Where the whole record at `begin` ends, whose body has so many bytes at most; None if there is none."""
    length = int.from_bytes(data[begin : begin + 4], "little")
    end = begin + HEADER_BYTES + length
    if not 0 < length <= bytes_max or end > len(data):
        return None
    return end if blake2_128(body_of(data, begin, end)) == data[begin + 4 : begin + HEADER_BYTES] else None


def body_of(data: bytes, begin: int, end: int) -> bytes:
    """The body of the record between two places."""
    return data[begin + HEADER_BYTES : end]
