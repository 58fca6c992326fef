"""Limits of HTTP chunks: a chunk of one byte takes as long to parse as one of a kilobyte.

Pure. What always holds: a body beyond its first `FREE_CHUNKS` has at least `CHUNK_BYTES_MIN` bytes in a chunk on
average.
"""

from __future__ import annotations

FREE_CHUNKS = 64
CHUNK_BYTES_MIN = 128


class TinyChunksError(Exception):
    """A body came in chunks that are too small."""


class ChunkBudget:
    """The chunks of one body."""

    def __init__(self) -> None:
        """Start a body."""
        self._chunks = 0
        self._size = 0

    def take(self, size: int, *, is_end: bool) -> None:
        """Count `size` more bytes, and with `is_end` one more chunk.  Raises `TinyChunksError`."""
        self._size += size
        self._chunks += is_end
        if self._chunks > FREE_CHUNKS and self._size < CHUNK_BYTES_MIN * self._chunks:
            raise TinyChunksError
