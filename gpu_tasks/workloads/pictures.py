"""Pictures bought as tiles: cut, checked, put together. For programs that know no workload by name; needs no NumPy.

Invariant: the same text, size and number of tiles give the same lines, byte for byte. A repeated command therefore
recognises an interrupted purchase.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, cast

from gpu_tasks.traces.trace import SEGMENTS_MAX
from gpu_tasks.workloads.form import RequestError, WorkloadForm
from gpu_tasks.workloads.registry import form_named
from gpu_tasks.workloads.render_tile.picture import TILES_MAX, PictureError, assembled, png_of
from gpu_tasks.workloads.render_tile.request import OUTPUT, PIXELS_MAX, picture_id
from gpu_tasks.workloads.render_tile.scene_text import SceneError, TilePlace, read_text, statements
from gpu_tasks.workloads.workload import OutputCheck, Workload
from runtime.encoding.codec import DecodeError

PICTURE_WORKLOAD = "render-tile"


class PictureOrderError(ValueError):
    """The picture cannot be ordered. The message says what to correct."""


@dataclass(frozen=True, slots=True)
class PictureOrder:
    """An ordered picture: its scene in compact form, and its tiles."""

    scene: str
    width: int
    height: int
    places: tuple[TilePlace, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of a customer's file, one for each tile."""
        return tuple(
            f"{self.scene}; tile {place.left} {place.top} {place.columns} {place.rows}" for place in self.places
        )

    def problem(self, line_number: int, encoded_output: bytes) -> str | None:
        """Return the reason why bytes cannot be the tile of this number, or None.

        The bytes alone do not show whether the pixels are right.
        """
        try:
            tile = OUTPUT.decode(encoded_output)
        except DecodeError:
            return "is not a tile"
        place = TilePlace(tile.left, tile.top, tile.columns, tile.rows)
        if tile.picture != picture_id(self.scene.encode("ascii")) or place != self.places[line_number]:
            return "is not the requested tile"
        return None

    def png(self, outputs: Mapping[int, bytes]) -> bytes:
        """Return the PNG file from the outputs by number.

        Raise PictureOrderError, naming each missing or wrong tile.
        """
        try:
            return png_of(assembled(self.scene, [outputs.get(number, b"") for number in range(len(self.places))]))
        except PictureError as error:
            raise PictureOrderError(str(error)) from None


class SpotCheckedWorkload(Protocol):
    """A workload in which any part of an output can be computed again alone."""

    def spot_check(self, encoded_request: bytes, encoded_output: bytes, seed: bytes, count: int) -> OutputCheck:
        """Compute `count` parts again, drawn from `seed`, which the provider must not know before it has answered."""
        ...


def spot_checked(workload: Workload) -> SpotCheckedWorkload:
    """Return the workload with its spot checks. Raise TypeError if its outputs can only be checked as a whole."""
    if not hasattr(workload, "spot_check"):
        raise TypeError("the outputs of a picture are checked together")
    return cast("SpotCheckedWorkload", workload)


def picture_order(text: str, tiles: int, size: tuple[int, int] | None = None) -> PictureOrder:
    """Return a scene's picture in `tile_count` tiles, in `picture_size` if given.

    Raise PictureOrderError if that is impossible.
    """
    try:
        parsed = read_text(_with_size(text, size))
    except SceneError as error:
        raise PictureOrderError(f"the scene is not usable: {error}") from None
    scene = parsed.scene
    return PictureOrder(parsed.compact, scene.width, scene.height, _best_grid(scene.width, scene.height, tiles))


def tile_requests(picture: PictureOrder, cost_max: int) -> list[bytes]:
    """Return the request of each tile. Raise PictureOrderError if a tile costs more than `cost_max`."""
    tile_form, requests = picture_form(), []
    for line in picture.lines:
        try:
            requests.append(tile_form.encode(line, cost_max, {}, b""))  # A scene names its own seed
        except RequestError as error:
            raise PictureOrderError(f"a tile is not usable: {error}") from None
    return requests


def picture_form() -> WorkloadForm:
    """Return the form of the workload whose outputs are tiles."""
    return form_named(PICTURE_WORKLOAD)


def _with_size(text: str, size: tuple[int, int] | None) -> str:
    """Return the scene without a tile, in `picture_size` if given.

    Lines keep their numbers, so that errors name the right ones.
    """
    left_out = {"tile"} if size is None else {"tile", "picture"}
    words_by_line: dict[int, list[str]] = {}
    for statement in statements(text):
        if statement.name not in left_out:
            words_by_line.setdefault(statement.line, []).append(" ".join((statement.name, *statement.words)))
    if size is not None:
        # On the first line, so that the others keep their numbers.
        words_by_line.setdefault(1, []).insert(0, f"picture {size[0]} {size[1]}")
    return "\n".join(
        "; ".join(words_by_line.get(line_number, ())) for line_number in range(1, max(words_by_line, default=0) + 1)
    )


def _best_grid(width: int, height: int, tiles: int) -> tuple[TilePlace, ...]:
    """Return a picture cut into exactly `tile_count` tiles, as near to squares as the count allows, row by row."""
    if not 1 <= tiles <= min(TILES_MAX, width * height):
        raise PictureOrderError(f"--tiles takes 1 to {min(TILES_MAX, width * height):,} here, not {tiles:,}")
    grids = [
        (columns, tiles // columns)
        for columns in range(1, tiles + 1)
        if tiles % columns == 0 and columns <= width and tiles // columns <= height
    ]
    grids = [grid for grid in grids if _is_allowed(-(-width // grid[0]), -(-height // grid[1]))]
    if not grids:
        raise PictureOrderError(
            f"{tiles:,} tiles cannot cover {width} by {height} pixels: "
            f"a tile has at most {PIXELS_MAX:,} pixels and "
            f"{SEGMENTS_MAX:,} rows; try another number of --tiles, at least {-(-width * height // PIXELS_MAX)}"
        )
    columns, rows = min(grids, key=lambda grid: -(-width // grid[0]) - (-height // grid[1]))
    left_edges, top_edges = _cut_places(width, columns), _cut_places(height, rows)
    return tuple(
        TilePlace(left_edge, top_edge, right_edge - left_edge, bottom_edge - top_edge)
        for top_edge, bottom_edge in pairwise(top_edges)
        for left_edge, right_edge in pairwise(left_edges)
    )


def _is_allowed(columns: int, rows: int) -> bool:
    return columns * rows <= PIXELS_MAX and rows <= SEGMENTS_MAX


def _cut_places(side: int, parts: int) -> list[int]:
    return [side * number // parts for number in range(parts + 1)]
