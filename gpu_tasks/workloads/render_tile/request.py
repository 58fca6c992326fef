"""The service, its requests and its outputs as canonical SCALE bytes with limits. Needs no NumPy.

Invariant: the request alone determines the work and its cost, and the cost bounds the work: `TESTS` tests of a ray
against an object are one unit. A tile's bytes depend only on the scene and the places of its pixels. Tiles of one scene
therefore fit together, from any provider.
"""

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Annotated

from gpu_tasks.traces.trace import SEGMENTS_MAX
from gpu_tasks.workloads.render_tile.scene import RenderScene
from gpu_tasks.workloads.render_tile.scene_text import (
    TEXT_BYTES_MAX,
    SceneError,
    SceneText,
    TilePlace,
    read_text,
)
from runtime.encoding.codec import U16, U32, Bounded, DecodeError, Fixed, codec, struct

WORKLOAD_ID = blake2b(b"ogpu/workload/render-tile/1", digest_size=32).digest()
MODEL_ID = bytes(32)
"""Zeros, because there is no model file."""

PIXELS_MAX = 65_536
"""The most pixels of a tile. Its bytes, 3 for each pixel, then fit an output of 256 KiB."""
PIXEL_BYTES = 3
COST_MAX = 30_000
"""A minute or two of NumPy. A worker has two minutes for a request."""
TESTS = 1 << 18
RAY_TESTS = 24
"""The measured cost of a ray beside its tests against objects, in such tests."""


@struct
class TileRequest:
    """A request: render a part of the scene's picture, row by row."""

    left: U16
    top: U16
    columns: U16
    rows: U16
    segment: U16  # Rows between two states of the trace; the last segment may be shorter
    scene: Annotated[bytes, Bounded(TEXT_BYTES_MAX)]  # Its compact form: see `scene_text.py`


@struct
class TileOutput:
    """An output: its cost, its picture and part of it, and red, green and blue of each pixel, row by row."""

    cost: U32
    picture: Annotated[bytes, Fixed(32)]
    left: U16
    top: U16
    columns: U16
    rows: U16
    pixels: Annotated[bytes, Bounded(PIXEL_BYTES * PIXELS_MAX)]


REQUEST = codec(TileRequest)
OUTPUT = codec(TileOutput)
FRAME_BYTES = 48
"""The most bytes of an output beside its pixels."""


@dataclass(frozen=True, slots=True)
class AskedTile:
    """A decoded request: the scene, and the requested part of its picture."""

    scene: RenderScene
    tile: TilePlace
    segment: int
    picture: bytes
    """The picture's id: the hash of its scene."""

    @property
    def pixels(self) -> int:
        """The number of pixels."""
        return self.tile.columns * self.tile.rows

    @property
    def segments(self) -> int:
        """The number of segments of the run."""
        return -(-self.tile.rows // self.segment)

    @property
    def cost(self) -> int:
        """The cost in whole units of `TESTS` tests, at least 1."""
        return -(-self.pixels * tests_of_a_pixel(self.scene) // TESTS)

    def first_rows(self, rows: int) -> "AskedTile":
        """Return the part of the tile above its row `rows`."""
        return replace(self, tile=replace(self.tile, rows=rows))

    def output(self, pixels: bytes) -> "TileOutput":
        """Return the output with these pixels."""
        tile = self.tile
        return TileOutput(self.cost, self.picture, tile.left, tile.top, tile.columns, tile.rows, pixels)

    def place(self, pixel_index: int) -> tuple[int, int]:
        """Return the column and the row in the picture of a pixel of the tile."""
        # In the whole picture, because a pixel's random numbers must not depend on the tile that it is cut into.
        row, column = divmod(pixel_index, self.tile.columns)
        return self.tile.left + column, self.tile.top + row


def picture_id(scene: bytes) -> bytes:
    """Return the 32-byte id of a picture: the hash of its scene's compact form."""
    return blake2b(b"ogpu/render-tile/1/picture" + scene, digest_size=32).digest()


def tests_of_a_pixel(scene: RenderScene) -> int:
    """Return the most tests of a pixel: at each surface a ray, and another to the sun if there is one."""
    # A bound and no measurement: paths that leave the scene end earlier.
    rays = scene.samples * scene.bounces * (1 if scene.sun is None else 2)
    return rays * (len(scene.objects) + RAY_TESTS)


def read_request(request: TileRequest) -> AskedTile:
    """Return a request with its scene. Raise SceneError if it breaks a limit."""
    text = request.scene.decode("ascii", errors="replace")
    parsed = read_text(text)
    # One scene must have one id, so only its compact form is accepted.
    if parsed.compact != text:
        raise SceneError("the scene is not in its compact form")
    scene = parsed.scene
    tile = TilePlace(request.left, request.top, request.columns, request.rows)
    asked_tile = AskedTile(scene, tile, request.segment, picture_id(request.scene))
    problem = _limits_broken(asked_tile)
    if problem is not None:
        raise SceneError(problem)
    return asked_tile


def request_of(parsed: SceneText, segment_rows: int) -> TileRequest:
    """Return the request for the tile that a text names, or for the whole picture, without checking its limits."""
    tile = parsed.tile or TilePlace(0, 0, parsed.scene.width, parsed.scene.height)
    rows = min(segment_rows, tile.rows)
    return TileRequest(tile.left, tile.top, tile.columns, tile.rows, rows, parsed.compact.encode("ascii"))


def decode_request(encoded: bytes) -> AskedTile:
    """Return the request in `encoded_bytes`. Raise DecodeError unless it is canonical and within the limits."""
    try:
        return read_request(REQUEST.decode(encoded))
    except SceneError as error:
        raise DecodeError(str(error)) from error


def _limits_broken(asked_tile: AskedTile) -> str | None:
    """Return the problem with a tile, or None."""
    tile, scene = asked_tile.tile, asked_tile.scene
    if tile.columns < 1 or tile.rows < 1:
        return "a tile without columns or rows"
    if tile.left + tile.columns > scene.width or tile.top + tile.rows > scene.height:
        return f"the tile {_tile_text(tile)} is outside of the picture of {scene.width} by {scene.height}"
    if asked_tile.pixels > PIXELS_MAX:
        return f"a tile of {asked_tile.pixels:,} pixels, of at most {PIXELS_MAX:,}; cut the picture into more tiles"
    if not 1 <= asked_tile.segment <= tile.rows:
        return f"the option segment is outside 1 to {tile.rows}, the rows of the tile: {asked_tile.segment}"
    if asked_tile.segments > SEGMENTS_MAX:
        least = -(-tile.rows // SEGMENTS_MAX)
        return f"{tile.rows} rows make more than {SEGMENTS_MAX} segments; set the option segment to at least {least}"
    if asked_tile.cost > COST_MAX:
        return f"the tile costs {asked_tile.cost:,}, of at most {COST_MAX:,}; take smaller tiles or fewer samples"
    return None


def _tile_text(place: TilePlace) -> str:
    return f"{place.left} {place.top} {place.columns} {place.rows}"
