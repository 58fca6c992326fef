"""Inputs too long for a store: cut, listed, put together again, and the reader's cost of a manifest."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.batches.requests import BATCH_BYTES_MAX, REQUESTS_MAX
from gpu_tasks.data.pieces import (
    MANIFEST_VERSION,
    PIECE_BYTES,
    PIECES_MAX,
    WHOLE_BYTES_MAX,
    PiecesError,
    gathered,
    in_pieces,
)
from gpu_tasks.data.sealing import (
    BLOB_BYTES_MAX,
    CONTENT_BYTES_MAX,
    LARGE_CONTENT_BYTES_MAX,
    SEALING_BYTES_MAX,
    VERSION,
    SealError,
    SealKey,
    address_of,
    seal,
)
from gpu_tasks.data.unit_input import content_max, encode_input

KEY = SealKey(bytes([7]) * 32)


class Pieces:
    """A store that counts its requests."""

    def __init__(self, *blobs: bytes) -> None:
        self.blobs = {address_of(blob): blob for blob in blobs}
        self.asked = 0

    async def fetch(self, address: bytes) -> bytes:
        self.asked += 1
        return self.blobs[address]

    def whole(self, address: bytes, content_bytes: int = LARGE_CONTENT_BYTES_MAX) -> bytes:
        return asyncio.run(gathered(self.blobs[address], self.fetch, content_bytes))


def manifest(length: int, pieces: list[bytes]) -> bytes:
    """Return a manifest's bytes by its definition."""
    count = len(pieces)
    compact = (
        bytes([count << 2])
        if count < 64
        else (count << 2 | 1).to_bytes(2, "little")
        if count < 2**14
        else ((count << 2 | 2).to_bytes(4, "little"))
    )
    return bytes([MANIFEST_VERSION]) + length.to_bytes(4, "little") + compact + b"".join(pieces)


@pytest.mark.parametrize("size", [1, CONTENT_BYTES_MAX, 2 * PIECE_BYTES, LARGE_CONTENT_BYTES_MAX])
def test_what_is_sealed_is_opened_whatever_its_size(size: int) -> None:
    content = (b"0123456789abcde\n" * (size // 16 + 1))[:size]
    sealed = seal(content, [KEY.public], LARGE_CONTENT_BYTES_MAX)
    blobs = in_pieces(sealed)
    assert (len(blobs) == 1) == (size <= CONTENT_BYTES_MAX)
    assert all(0 < len(blob) <= BLOB_BYTES_MAX for blob in blobs)
    assert len(blobs) <= PIECES_MAX + 1 == 18
    assert KEY.open(Pieces(*blobs).whole(address_of(blobs[-1]))) == content
    if len(blobs) > 1:
        assert blobs[-1] == manifest(len(sealed), [address_of(blob) for blob in blobs[:-1]])


def test_the_largest_batch_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    content = encode_input(bytes(32), KEY.public, bytes(BATCH_BYTES_MAX))
    assert len(content) <= content_max(REQUESTS_MAX) == LARGE_CONTENT_BYTES_MAX
    assert in_pieces(seal(content, [KEY.public], LARGE_CONTENT_BYTES_MAX))
    with pytest.raises(ValueError, match="at most"):
        seal(content, [KEY.public])
    with pytest.raises(ValueError, match="pieces hold"):
        in_pieces(bytes(WHOLE_BYTES_MAX + 1))


def test_no_sealed_blob_is_taken_for_a_manifest() -> None:
    assert seal(b"x", [KEY.public])[0] == VERSION != MANIFEST_VERSION
    with pytest.raises(SealError, match="sealed blob"):
        KEY.open(manifest(2 * PIECE_BYTES, [bytes(32)] * 2))


PIECE, END = b"a" * PIECE_BYTES, b"b" * PIECE_BYTES


@pytest.mark.parametrize(
    ("length", "pieces"),
    [
        (0, []),
        (5, [PIECE]),
        (PIECE_BYTES, [PIECE]),
        (BLOB_BYTES_MAX, [PIECE, END]),
        (2 * PIECE_BYTES, [PIECE]),
        (2 * PIECE_BYTES, [PIECE, END, END]),
        (WHOLE_BYTES_MAX + 1, [PIECE] * PIECES_MAX),
        (2**32 - 1, [PIECE] * 2),
        (PIECE_BYTES * (PIECES_MAX + 1), [PIECE] * (PIECES_MAX + 1)),
        (2**32 - 1, [PIECE] * 10_000),
    ],
)
def test_a_manifest_that_cannot_be_is_refused_before_anything_is_fetched(length: int, pieces: list[bytes]) -> None:
    named = manifest(length, [address_of(piece) for piece in pieces[:2]] * (len(pieces) // 2 + 1))
    store = Pieces(PIECE, END, manifest(length, [address_of(PIECE)] * len(pieces)), named)
    for blob in list(store.blobs.values())[2:]:
        with pytest.raises(PiecesError):
            asyncio.run(gathered(blob, store.fetch, LARGE_CONTENT_BYTES_MAX))
    assert store.asked == 0


def test_a_unit_of_few_requests_makes_nobody_fetch_much() -> None:
    assert content_max(1) < CONTENT_BYTES_MAX
    assert content_max(20) < 20 * 65_600
    store = Pieces(PIECE, END, named := manifest(2 * PIECE_BYTES, [address_of(PIECE), address_of(END)]))
    assert store.whole(address_of(named), content_max(40)) == PIECE + END
    store.asked = 0
    for requests in (1, 2, 30):
        with pytest.raises(PiecesError, match="of at most"):
            store.whole(address_of(named), content_max(requests))
    assert store.asked == 0


def test_no_byte_more_than_a_unit_may_have_is_fetched() -> None:
    """The limit is the content and the boxes of its readers, to the byte."""
    length = 2 * PIECE_BYTES - 1
    named = manifest(length, [address_of(PIECE), address_of(END[:-1])])
    store = Pieces(PIECE, END[:-1], named)
    assert len(store.whole(address_of(named), length - SEALING_BYTES_MAX)) == length
    store.asked = 0
    with pytest.raises(PiecesError, match="of at most"):
        store.whole(address_of(named), length - SEALING_BYTES_MAX - 1)
    assert store.asked == 0


def test_pieces_of_another_length_are_the_makers_fault() -> None:
    small = b"small"
    for pieces in ([small, END], [PIECE, small], [PIECE + b"x", END]):
        named = manifest(2 * PIECE_BYTES, [address_of(piece) for piece in pieces])
        with pytest.raises(PiecesError, match="another length"):
            Pieces(*pieces, named).whole(address_of(named))


@given(st.binary(max_size=200))
def test_whatever_stands_there_ends_in_a_whole_or_an_error(tail: bytes) -> None:
    store = Pieces(blob := bytes([MANIFEST_VERSION]) + tail)
    with pytest.raises(PiecesError):
        store.whole(address_of(blob))


def test_what_the_largest_manifest_costs_its_reader() -> None:
    """The whole, one piece, and their overhead: at most twice the limit of sealed content."""
    pieces = [bytes([number]) * PIECE_BYTES for number in range(16)]
    store, named = Pieces(*pieces), manifest(16 * PIECE_BYTES, [address_of(piece) for piece in pieces])

    async def length() -> int:
        return len(await gathered(named, store.fetch, LARGE_CONTENT_BYTES_MAX))

    tracemalloc.start()
    try:
        assert asyncio.run(length()) == 16 * PIECE_BYTES
        assert tracemalloc.get_traced_memory()[1] < 2 * WHOLE_BYTES_MAX + PIECE_BYTES
    finally:
        tracemalloc.stop()
