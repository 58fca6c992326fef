"""A picture from the tiles of providers: missing tiles, foreign tiles, and the file. Needs no NumPy.

Invariant: a tile is refused, by name, if it belongs to another picture, has another form, or contradicts an earlier
tile. The bytes do not show whether the pixels are right: `TileRendering.spot_check` computes drawn ones again.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from gpu_tasks.workloads.render_tile.request import (
    OUTPUT,
    PIXEL_BYTES,
    PIXELS_MAX,
    AskedTile,
    TileOutput,
    decode_request,
    picture_id,
)
from gpu_tasks.workloads.render_tile.scene_text import SceneText, TilePlace, read_text
from runtime.encoding.codec import DecodeError

COMPRESSION = 6
TILES_MAX = 4_096
"""The most tiles of a picture: the most lines of a customer's file."""


# The state of a run as bytes: its request, the completed rows, their pixels.
#
# blake2b-256 of the request ‖ rows done: u32 ‖ red, green, blue of their pixels, row by row little-endian
#
# Invariant: each state has one encoding, of a length that the request and the rows fix.
DIGEST_BYTES = 32
HEADER_BYTES = DIGEST_BYTES + 4


def request_digest(request: bytes) -> bytes:
    """Return the first bytes of all states of a request's run."""
    return blake2b(request, digest_size=DIGEST_BYTES).digest()


def encode_state(digest: bytes, rows: int, pixels: bytes) -> bytes:
    """Return the state of the run of `digest` after `rows` rows."""
    return digest + rows.to_bytes(4, "little") + pixels


def decode_state(asked: AskedTile, digest: bytes, state: bytes) -> tuple[int, bytes]:
    """Return the completed rows and their pixels. Raise DecodeError unless `state` is one of this request."""
    if state[:DIGEST_BYTES] != digest or len(state) < HEADER_BYTES:
        raise DecodeError("a state of another request")
    rows = int.from_bytes(state[DIGEST_BYTES:HEADER_BYTES], "little")
    if rows > asked.tile.rows:
        raise DecodeError("more rows than in the tile", DIGEST_BYTES)
    if len(state) != HEADER_BYTES + PIXEL_BYTES * rows * asked.tile.columns:
        raise DecodeError("a state of another length", len(state))
    return rows, state[HEADER_BYTES:]


@dataclass(frozen=True, slots=True)
class RenderedPicture:
    """Red, green and blue of every pixel, row by row."""

    width: int
    height: int
    pixels: bytes


class PictureError(ValueError):
    """The tiles make no whole picture. `problems` are sentences, `missing` the tiles to order."""

    def __init__(self, problems: Sequence[str], missing: Sequence[TilePlace]) -> None:
        """Take both in the order of discovery."""
        super().__init__("; ".join(problems))
        self.problems, self.missing = tuple(problems), tuple(missing)


def assembled(text: str, outputs: Sequence[bytes]) -> RenderedPicture:
    """Return a scene's picture from its tiles' outputs, in any order.

    An output may be empty, for a tile that did not arrive. Raise PictureError if the tiles do not make the whole
    picture, and SceneError for an invalid scene.
    """
    read = read_text(text)
    canvas = _Canvas(read)
    for number, output in enumerate(outputs, 1):
        canvas.take(f"output {number}", output)
    missing = canvas.missing()
    canvas.problems += [f"missing: tile {each.left} {each.top} {each.columns} {each.rows}" for each in missing]
    if canvas.problems:
        raise PictureError(canvas.problems, missing)
    return RenderedPicture(read.scene.width, read.scene.height, bytes(canvas.pixels))


def output_of_state(request: bytes, state: bytes) -> bytes:
    """Return the rows of a state as the output of a tile with that many rows, also for an unfinished task.

    Raise DecodeError for an invalid request, for no state of it, or for a state without a row.
    """
    asked = decode_request(request)
    rows, pixels = decode_state(asked, request_digest(request), state)
    if not rows:
        raise DecodeError("a state without rows")
    return OUTPUT.encode(asked.first_rows(rows).output(pixels))


def png_of(picture: RenderedPicture) -> bytes:
    """Return a PNG file: 8 bits for each colour, rows without a filter."""
    length = PIXEL_BYTES * picture.width
    rows = (picture.pixels[start : start + length] for start in range(0, len(picture.pixels), length))
    # PNG (ISO/IEC 15948): bit depth 8, colour type 2 is RGB, and each row starts with its filter type.
    header = struct.pack(">IIBBBBB", picture.width, picture.height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), COMPRESSION)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


class _Canvas:
    """The pixels of the tiles so far, and the problems with tiles."""

    def __init__(self, read: SceneText) -> None:
        self._width, self._height = read.scene.width, read.scene.height
        self._picture = picture_id(read.compact.encode("ascii"))
        self.pixels = bytearray(PIXEL_BYTES * self._width * self._height)
        self._has_come = bytearray(self._width * self._height)
        self.problems: list[str] = []

    def take(self, name: str, output: bytes) -> None:
        """Put a tile in its place, or note its problem."""
        try:
            tile = OUTPUT.decode(output)
        except DecodeError:
            self.problems.append(f"{name} is not a tile" if output else f"{name} is missing")
            return
        problem = self._problem(tile)
        if problem is not None:
            self.problems.append(f"{name}, tile {tile.left} {tile.top} {tile.columns} {tile.rows}, {problem}")
            return
        for row in range(tile.rows):
            start = (tile.top + row) * self._width + tile.left
            self._has_come[start : start + tile.columns] = b"\1" * tile.columns
            self.pixels[PIXEL_BYTES * start : PIXEL_BYTES * (start + tile.columns)] = _row(tile, row)

    def missing(self) -> list[TilePlace]:
        """Return the missing pixels as tiles that can be ordered, each as wide, then as high as possible."""
        found, came = [], self._has_come
        while (first := came.find(0)) >= 0:
            top, left = divmod(first, self._width)
            end = came.find(1, first, (top + 1) * self._width)
            columns = (end if end >= 0 else (top + 1) * self._width) - first
            rows, most = 0, PIXELS_MAX // columns
            while rows < min(most, self._height - top) and not any(self._of(left, top + rows, columns)):
                start = (top + rows) * self._width + left
                came[start : start + columns] = b"\1" * columns
                rows += 1
            found.append(TilePlace(left, top, columns, rows))
        return found

    def _of(self, left: int, row: int, columns: int) -> bytearray:
        start = row * self._width + left
        return self._has_come[start : start + columns]

    def _problem(self, tile: TileOutput) -> str | None:
        """Return the problem with a tile, or None."""
        if tile.picture != self._picture:
            return "is part of another picture"
        if tile.left + tile.columns > self._width or tile.top + tile.rows > self._height:
            return f"is outside of the picture of {self._width} by {self._height}"
        if len(tile.pixels) != PIXEL_BYTES * tile.columns * tile.rows:
            return f"has {len(tile.pixels):,} bytes for {tile.columns * tile.rows:,} pixels"
        for row in range(tile.rows):
            start = (tile.top + row) * self._width + tile.left
            for column, has_come in enumerate(self._of(tile.left, tile.top + row, tile.columns)):
                at = PIXEL_BYTES * (start + column)
                mine = tile.pixels[PIXEL_BYTES * (row * tile.columns + column) :][:PIXEL_BYTES]
                if has_come and self.pixels[at : at + PIXEL_BYTES] != mine:
                    return f"differs from an earlier one at column {tile.left + column}, row {tile.top + row}"
        return None


def _row(tile: TileOutput, row: int) -> bytes:
    length = PIXEL_BYTES * tile.columns
    return tile.pixels[row * length : (row + 1) * length]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
