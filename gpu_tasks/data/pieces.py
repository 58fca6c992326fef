"""A sealed blob that is too long for a store, in pieces: each a blob by its own hash, with a manifest.

    manifest = SCALE(version, length of the whole, hashes of the pieces)        address of the whole = the manifest's

A reader of a blob reads a whole in pieces in the same way, by `gathered`, which fetches the missing pieces. Invariant:
the reader's cost is known before any piece is fetched: at most 17 pieces, and no byte beyond the limit of an input. A
whole has exactly one right manifest, and every reader rejects the same wrong ones.
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
    """The blob is no manifest, or does not fit its pieces. Its author made it so."""


@struct
class _Manifest:
    version: U8
    length: U32
    pieces: Annotated[tuple[Annotated[bytes, Fixed(32)], ...], Bounded(PIECES_MAX)]


_MANIFEST = codec(_Manifest)


def in_pieces(sealed: bytes) -> list[bytes]:
    """Return the blobs to store for a sealed blob: itself, or its pieces. The last one's address is the whole's."""
    if len(sealed) <= BLOB_BYTES_MAX:
        return [sealed]
    if len(sealed) > WHOLE_BYTES_MAX:
        raise ValueError(f"pieces hold at most {WHOLE_BYTES_MAX:,} bytes, not {len(sealed):,}")
    pieces = [sealed[start : start + PIECE_BYTES] for start in range(0, len(sealed), PIECE_BYTES)]
    manifest = _Manifest(MANIFEST_VERSION, len(sealed), tuple(map(address_of, pieces)))
    return [*pieces, _MANIFEST.encode(manifest)]


async def gathered(blob: bytes, fetch: Callable[[bytes], Awaitable[bytes]], content_max: int) -> bytes:
    """Return a fetched blob, or the whole of the pieces that it lists, with at most `content_max` of content.

    `fetch` returns the blob of an address; its errors pass through. Pieces are fetched in turn, each from
    several stores. Raise PiecesError for a wrong manifest.
    """
    if blob[:1] != bytes([MANIFEST_VERSION]):
        return blob
    manifest = _manifest_of(blob)
    if manifest.length > content_max + SEALING_BYTES_MAX:
        raise PiecesError(f"{manifest.length:,} bytes in pieces, of at most {content_max:,}")
    pieces: list[bytes] = []
    for address in manifest.pieces:
        pieces.append(await fetch(address))
        # Other lengths would give one whole several manifests.
        if len(pieces[-1]) != min(PIECE_BYTES, manifest.length - (len(pieces) - 1) * PIECE_BYTES):
            raise PiecesError("a piece with another length than in its manifest")
    return b"".join(pieces)


def pieces_of(blob: bytes) -> tuple[bytes, ...]:
    """Return the addresses of the pieces in a manifest, none for any other blob."""
    try:
        return _manifest_of(blob).pieces if blob[:1] == bytes([MANIFEST_VERSION]) else ()
    except PiecesError:
        return ()


def _manifest_of(blob: bytes) -> _Manifest:
    try:
        manifest = _MANIFEST.decode(blob)
    except DecodeError as error:
        raise PiecesError(f"not a manifest of pieces: {error}") from None
    piece_count = -(-manifest.length // PIECE_BYTES)
    if not BLOB_BYTES_MAX < manifest.length <= WHOLE_BYTES_MAX or len(manifest.pieces) != piece_count:
        raise PiecesError(f"{len(manifest.pieces)} pieces for {manifest.length:,} bytes in a manifest")
    return manifest
