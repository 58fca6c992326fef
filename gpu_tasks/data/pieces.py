"""A sealed blob that is too long for a store, in pieces: each a blob by its own hash, and a manifest that names them.

    manifest = SCALE(version, length of the whole, hashes of the pieces)        address of the whole = the manifest's

Whoever reads a blob by its address reads a whole in pieces alike, by `gathered`: it fetches the pieces that it lacks.
Always: what a manifest may cost its reader is known before a piece is fetched, 17 pieces at most and no byte beyond
what an input may have; a whole has one manifest that is right, and everybody finds the same ones wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from gpu_tasks.data.sealing import BLOB_BYTES_MAX, LARGE_CONTENT_BYTES_MAX, SEALING_BYTES_MAX, address_of
from runtime.encoding.codec import U8, U32, Bounded, DecodeError, Fixed, codec, struct

MANIFEST_VERSION = 128
"""The first byte, which no sealed blob has."""
PIECE_BYTES = 1024 * 1024
WHOLE_BYTES_MAX = LARGE_CONTENT_BYTES_MAX + SEALING_BYTES_MAX
PIECES_MAX = -(-WHOLE_BYTES_MAX // PIECE_BYTES)


class PiecesError(ValueError):
    """A manifest that is none, or not that of its pieces: whoever made it did so."""


@struct
class _Manifest:
    version: U8
    length: U32
    pieces: Annotated[tuple[Annotated[bytes, Fixed(32)], ...], Bounded(PIECES_MAX)]


_MANIFEST = codec(_Manifest)


def in_pieces(sealed: bytes) -> list[bytes]:
    """What is stored for a sealed blob: itself, or its pieces. The last one's address is that of the whole."""
    if len(sealed) <= BLOB_BYTES_MAX:
        return [sealed]
    if len(sealed) > WHOLE_BYTES_MAX:
        raise ValueError(f"at most {WHOLE_BYTES_MAX:,} bytes are stored in pieces, not {len(sealed):,}")
    pieces = [sealed[start : start + PIECE_BYTES] for start in range(0, len(sealed), PIECE_BYTES)]
    manifest = _Manifest(MANIFEST_VERSION, len(sealed), tuple(map(address_of, pieces)))
    return [*pieces, _MANIFEST.encode(manifest)]


async def gathered(blob: bytes, fetch: Callable[[bytes], Awaitable[bytes]], content_max: int) -> bytes:
    """The whole that a fetched blob stands for: itself, or the pieces that it names, with so much content; PiecesError.

    `fetch` gives the blob of an address, or raises what is passed on. One piece after the other: each is asked of
    several stores as it is.
    """
    if blob[:1] != bytes([MANIFEST_VERSION]):
        return blob
    manifest = _manifest_of(blob)
    if manifest.length > content_max + SEALING_BYTES_MAX:
        raise PiecesError(f"{manifest.length:,} bytes in pieces, where {content_max:,} may be sealed")
    pieces: list[bytes] = []
    for address in manifest.pieces:
        pieces.append(await fetch(address))
        if len(pieces[-1]) != min(PIECE_BYTES, manifest.length - (len(pieces) - 1) * PIECE_BYTES):
            raise PiecesError("a piece has another length than its manifest says")
    return b"".join(pieces)


def pieces_of(blob: bytes) -> tuple[bytes, ...]:
    """The addresses of the pieces that a blob names; none for one that is no manifest."""
    try:
        return _manifest_of(blob).pieces if blob[:1] == bytes([MANIFEST_VERSION]) else ()
    except PiecesError:
        return ()


def _manifest_of(blob: bytes) -> _Manifest:
    try:
        manifest = _MANIFEST.decode(blob)
    except DecodeError as error:
        raise PiecesError(f"not a manifest of pieces: {error}") from None
    fitting = -(-manifest.length // PIECE_BYTES)
    if not BLOB_BYTES_MAX < manifest.length <= WHOLE_BYTES_MAX or len(manifest.pieces) != fitting:
        raise PiecesError(f"a manifest of {len(manifest.pieces)} pieces for {manifest.length:,} bytes")
    return manifest
