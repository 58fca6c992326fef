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
            f"{self.scene}; tile {tile_place.left} {tile_place.top} {tile_place.columns} {tile_place.rows}"
            for tile_place in self.places
        )

    def problem(self, line_number: int, encoded_output: bytes) -> str | None:
        """Return the reason why bytes cannot be the tile of this number, or None.

        The bytes alone do not show whether the pixels are right.
        """
        try:
            decoded_tile = OUTPUT.decode(encoded_output)
        except DecodeError:
            return "is not a tile"
        tile_place = TilePlace(decoded_tile.left, decoded_tile.top, decoded_tile.columns, decoded_tile.rows)
        if decoded_tile.picture != picture_id(self.scene.encode("ascii")) or tile_place != self.places[line_number]:
            return "is not the requested tile"
        return None

    def png(self, output_by_line: Mapping[int, bytes]) -> bytes:
        """Return the PNG file from the outputs by number.

        Raise PictureOrderError, naming each missing or wrong tile.
        """
        try:
            return png_of(
                assembled(self.scene, [output_by_line.get(tile_number, b"") for tile_number in range(len(self.places))])
            )
        except PictureError as picture_error:
            raise PictureOrderError(str(picture_error)) from None


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


def picture_order(input_text: str, tile_count: int, picture_size: tuple[int, int] | None = None) -> PictureOrder:
    """Return a scene's picture in `tile_count` tiles, in `picture_size` if given.

    Raise PictureOrderError if that is impossible.
    """
    try:
        read_scene = read_text(_with_size(input_text, picture_size))
    except SceneError as scene_error:
        raise PictureOrderError(f"the scene is not usable: {scene_error}") from None
    scene = read_scene.scene
    return PictureOrder(
        read_scene.compact, scene.width, scene.height, _best_grid(scene.width, scene.height, tile_count)
    )


def tile_requests(picture: PictureOrder, cost_max: int) -> list[bytes]:
    """Return the request of each tile. Raise PictureOrderError if a tile costs more than `cost_max`."""
    tile_form, requests = picture_form(), []
    for request_line in picture.lines:
        try:
            requests.append(tile_form.encode(request_line, cost_max, {}, b""))  # A scene names its own seed
        except RequestError as request_error:
            raise PictureOrderError(f"a tile is not usable: {request_error}") from None
    return requests


def picture_form() -> WorkloadForm:
    """Return the form of the workload whose outputs are tiles."""
    return form_named(PICTURE_WORKLOAD)


def _with_size(input_text: str, picture_size: tuple[int, int] | None) -> str:
    """Return the scene without a tile, in `picture_size` if given.

    Lines keep their numbers, so that errors name the right ones.
    """
    left_out = {"tile"} if picture_size is None else {"tile", "picture"}
    words_by_line: dict[int, list[str]] = {}
    for scene_statement in statements(input_text):
        if scene_statement.name not in left_out:
            words_by_line.setdefault(scene_statement.line, []).append(
                " ".join((scene_statement.name, *scene_statement.words))
            )
    if picture_size is not None:
        # On the first line, so that the others keep their numbers.
        words_by_line.setdefault(1, []).insert(0, f"picture {picture_size[0]} {picture_size[1]}")
    return "\n".join(
        "; ".join(words_by_line.get(line_number, ())) for line_number in range(1, max(words_by_line, default=0) + 1)
    )


def _best_grid(width: int, height: int, tile_count: int) -> tuple[TilePlace, ...]:
    """Return a picture cut into exactly `tile_count` tiles, as near to squares as the count allows, row by row."""
    if not 1 <= tile_count <= min(TILES_MAX, width * height):
        raise PictureOrderError(f"--tiles takes 1 to {min(TILES_MAX, width * height):,} here, not {tile_count:,}")
    tile_grids = [
        (columns, tile_count // columns)
        for columns in range(1, tile_count + 1)
        if tile_count % columns == 0 and columns <= width and tile_count // columns <= height
    ]
    tile_grids = [
        tile_grid for tile_grid in tile_grids if _is_allowed(-(-width // tile_grid[0]), -(-height // tile_grid[1]))
    ]
    if not tile_grids:
        raise PictureOrderError(
            f"{tile_count:,} tiles cannot cover {width} by {height} pixels: "
            f"a tile has at most {PIXELS_MAX:,} pixels and "
            f"{SEGMENTS_MAX:,} rows; try another number of --tiles, at least {-(-width * height // PIXELS_MAX)}"
        )
    columns, rows = min(tile_grids, key=lambda tile_grid: -(-width // tile_grid[0]) - (-height // tile_grid[1]))
    left_edges, top_edges = _cut_places(width, columns), _cut_places(height, rows)
    return tuple(
        TilePlace(left_edge, top_edge, right_edge - left_edge, bottom_edge - top_edge)
        for top_edge, bottom_edge in pairwise(top_edges)
        for left_edge, right_edge in pairwise(left_edges)
    )


def _is_allowed(columns: int, rows: int) -> bool:
    return columns * rows <= PIXELS_MAX and rows <= SEGMENTS_MAX


def _cut_places(side_length: int, part_count: int) -> list[int]:
    return [side_length * cut_number // part_count for cut_number in range(part_count + 1)]
