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


def request_digest(encoded_request: bytes) -> bytes:
    """Return the first bytes of all states of a request's run."""
    return blake2b(encoded_request, digest_size=DIGEST_BYTES).digest()


def encode_state(request_hash: bytes, rows: int, pixels_so_far: bytes) -> bytes:
    """Return the state of the run of `request_hash` after `rows` rows."""
    return request_hash + rows.to_bytes(4, "little") + pixels_so_far


def decode_state(asked_tile: AskedTile, request_hash: bytes, state: bytes) -> tuple[int, bytes]:
    """Return the completed rows and their pixels. Raise DecodeError unless `state` is one of this request."""
    if state[:DIGEST_BYTES] != request_hash or len(state) < HEADER_BYTES:
        # A state carries its request's hash, so a provider cannot pass off the state of another run.
        raise DecodeError("a state of another request")
    rows = int.from_bytes(state[DIGEST_BYTES:HEADER_BYTES], "little")
    if rows > asked_tile.tile.rows:
        raise DecodeError("more rows than in the tile", DIGEST_BYTES)
    if len(state) != HEADER_BYTES + PIXEL_BYTES * rows * asked_tile.tile.columns:
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

    def __init__(self, problems: Sequence[str], missing_tiles: Sequence[TilePlace]) -> None:
        """Take both in the order of discovery."""
        super().__init__("; ".join(problems))
        self.problems, self.missing = tuple(problems), tuple(missing_tiles)


def assembled(text: str, outputs: Sequence[bytes]) -> RenderedPicture:
    """Return a scene's picture from its tiles' outputs, in any order.

    An output may be empty, for a tile that did not arrive. Raise PictureError if the tiles do not make the whole
    picture, and SceneError for an invalid scene.
    """
    parsed = read_text(text)
    canvas = _Canvas(parsed)
    for tile_number, output in enumerate(outputs, 1):
        canvas.take(f"output {tile_number}", output)
    # In the form of tiles, so a customer can order exactly the pixels that did not come.
    missing_tiles = canvas.missing()
    canvas.problems += [f"missing: tile {tile.left} {tile.top} {tile.columns} {tile.rows}" for tile in missing_tiles]
    if canvas.problems:
        raise PictureError(canvas.problems, missing_tiles)
    return RenderedPicture(parsed.scene.width, parsed.scene.height, bytes(canvas.pixels))


def output_of_state(encoded_request: bytes, state: bytes) -> bytes:
    """Return the rows of a state as the output of a tile with that many rows, also for an unfinished task.

    Raise DecodeError for an invalid request, for no state of it, or for a state without a row.
    """
    asked_tile = decode_request(encoded_request)
    rows, pixels = decode_state(asked_tile, request_digest(encoded_request), state)
    if not rows:
        raise DecodeError("a state without rows")
    return OUTPUT.encode(asked_tile.first_rows(rows).output(pixels))


def png_of(picture: RenderedPicture) -> bytes:
    """Return a PNG file: 8 bits for each colour, rows without a filter."""
    row_bytes = PIXEL_BYTES * picture.width
    rows = (picture.pixels[row_start : row_start + row_bytes] for row_start in range(0, len(picture.pixels), row_bytes))
    # PNG (ISO/IEC 15948): bit depth 8, colour type 2 is RGB, and each row starts with its filter type.
    header = struct.pack(">IIBBBBB", picture.width, picture.height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), COMPRESSION)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


class _Canvas:
    """The pixels of the tiles so far, and the problems with tiles."""

    def __init__(self, parsed: SceneText) -> None:
        self._width, self._height = parsed.scene.width, parsed.scene.height
        self._picture = picture_id(parsed.compact.encode("ascii"))
        self.pixels = bytearray(PIXEL_BYTES * self._width * self._height)
        self._has_come = bytearray(self._width * self._height)
        self.problems: list[str] = []

    def take(self, tile_name: str, encoded_output: bytes) -> None:
        """Put a tile in its place, or note its problem."""
        try:
            tile = OUTPUT.decode(encoded_output)
        except DecodeError:
            self.problems.append(f"{tile_name} is not a tile" if encoded_output else f"{tile_name} is missing")
            return
        problem = self._contradiction(tile)
        if problem is not None:
            self.problems.append(f"{tile_name}, tile {tile.left} {tile.top} {tile.columns} {tile.rows}, {problem}")
            return
        for row in range(tile.rows):
            row_start = (tile.top + row) * self._width + tile.left
            self._has_come[row_start : row_start + tile.columns] = b"\1" * tile.columns
            self.pixels[PIXEL_BYTES * row_start : PIXEL_BYTES * (row_start + tile.columns)] = _row_of(tile, row)

    def missing(self) -> list[TilePlace]:
        """Return the missing pixels as tiles that can be ordered, each as wide, then as high as possible."""
        missing_tiles, arrived_pixels = [], self._has_come
        while (first := arrived_pixels.find(0)) >= 0:
            top, left = divmod(first, self._width)
            right = arrived_pixels.find(1, first, (top + 1) * self._width)
            columns = (right if right >= 0 else (top + 1) * self._width) - first
            rows, most = 0, PIXELS_MAX // columns
            while rows < min(most, self._height - top) and not any(self._pixel_places(left, top + rows, columns)):
                expected_row = (top + rows) * self._width + left
                arrived_pixels[expected_row : expected_row + columns] = b"\1" * columns
                rows += 1
            missing_tiles.append(TilePlace(left, top, columns, rows))
        return missing_tiles

    def _pixel_places(self, left: int, row: int, columns: int) -> bytearray:
        row_start = row * self._width + left
        return self._has_come[row_start : row_start + columns]

    def _contradiction(self, tile: TileOutput) -> str | None:
        """Return the problem with a tile, or None."""
        if tile.picture != self._picture:
            # By the hash of the scene: tiles of two scenes could have the same size and place.
            return "is part of another picture"
        if tile.left + tile.columns > self._width or tile.top + tile.rows > self._height:
            return f"is outside of the picture of {self._width} by {self._height}"
        if len(tile.pixels) != PIXEL_BYTES * tile.columns * tile.rows:
            return f"has {len(tile.pixels):,} bytes for {tile.columns * tile.rows:,} pixels"
        for row in range(tile.rows):
            row_start = (tile.top + row) * self._width + tile.left
            for column, has_come in enumerate(self._pixel_places(tile.left, tile.top + row, tile.columns)):
                pixel_offset = PIXEL_BYTES * (row_start + column)
                new_pixel = tile.pixels[PIXEL_BYTES * (row * tile.columns + column) :][:PIXEL_BYTES]
                # Tiles of two providers may overlap. The bytes cannot tell which one is wrong, so the earlier one
                # stays.
                if has_come and self.pixels[pixel_offset : pixel_offset + PIXEL_BYTES] != new_pixel:
                    return f"differs from an earlier one at column {tile.left + column}, row {tile.top + row}"
        return None


def _row_of(tile: TileOutput, row: int) -> bytes:
    row_bytes = PIXEL_BYTES * tile.columns
    return tile.pixels[row * row_bytes : (row + 1) * row_bytes]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
