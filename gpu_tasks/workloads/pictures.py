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
        return tuple(f"{self.scene}; tile {each.left} {each.top} {each.columns} {each.rows}" for each in self.places)

    def problem(self, number: int, output: bytes) -> str | None:
        """Return the reason why bytes cannot be the tile of this number, or None.

        The bytes alone do not show whether the pixels are right.
        """
        try:
            tile = OUTPUT.decode(output)
        except DecodeError:
            return "is not a tile"
        place = TilePlace(tile.left, tile.top, tile.columns, tile.rows)
        if tile.picture != picture_id(self.scene.encode("ascii")) or place != self.places[number]:
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

    def spot_check(self, request: bytes, output: bytes, seed: bytes, count: int) -> OutputCheck:
        """Compute `count` parts again, drawn from `seed`, which the provider must not know before it has answered."""
        ...


def spot_checked(workload: Workload) -> SpotCheckedWorkload:
    """Return the workload with its spot checks. Raise TypeError if its outputs can only be checked as a whole."""
    if not hasattr(workload, "spot_check"):
        raise TypeError("the outputs of a picture are checked together")
    return cast("SpotCheckedWorkload", workload)


def picture_order(text: str, tiles: int, size: tuple[int, int] | None = None) -> PictureOrder:
    """Return a scene's picture in `tiles` tiles, in `size` if given. Raise PictureOrderError if that is impossible."""
    try:
        read = read_text(_of_size(text, size))
    except SceneError as error:
        raise PictureOrderError(f"the scene is not usable: {error}") from None
    scene = read.scene
    return PictureOrder(read.compact, scene.width, scene.height, _grid(scene.width, scene.height, tiles))


def tile_requests(order: PictureOrder, cost_max: int) -> list[bytes]:
    """Return the request of each tile. Raise PictureOrderError if a tile costs more than `cost_max`."""
    form, requests = picture_form(), []
    for line in order.lines:
        try:
            requests.append(form.encode(line, cost_max, {}, b""))  # A scene names its own seed
        except RequestError as error:
            raise PictureOrderError(f"a tile is not usable: {error}") from None
    return requests


def picture_form() -> WorkloadForm:
    """Return the form of the workload whose outputs are tiles."""
    return form_named(PICTURE_WORKLOAD)


def _of_size(text: str, size: tuple[int, int] | None) -> str:
    """Return the scene without a tile, in `size` if given.

    Lines keep their numbers, so that errors name the right ones.
    """
    left_out = {"tile"} if size is None else {"tile", "picture"}
    lines: dict[int, list[str]] = {}
    for each in statements(text):
        if each.name not in left_out:
            lines.setdefault(each.line, []).append(" ".join((each.name, *each.words)))
    if size is not None:
        # On the first line, so that the others keep their numbers.
        lines.setdefault(1, []).insert(0, f"picture {size[0]} {size[1]}")
    return "\n".join("; ".join(lines.get(number, ())) for number in range(1, max(lines, default=0) + 1))


def _grid(width: int, height: int, count: int) -> tuple[TilePlace, ...]:
    """Return a picture cut into exactly `count` tiles, as near to squares as the count allows, row by row."""
    if not 1 <= count <= min(TILES_MAX, width * height):
        raise PictureOrderError(f"--tiles takes 1 to {min(TILES_MAX, width * height):,} here, not {count:,}")
    grids = [
        (columns, count // columns)
        for columns in range(1, count + 1)
        if count % columns == 0 and columns <= width and count // columns <= height
    ]
    grids = [grid for grid in grids if _is_allowed(-(-width // grid[0]), -(-height // grid[1]))]
    if not grids:
        raise PictureOrderError(
            f"{count:,} tiles cannot cover {width} by {height} pixels: a tile has at most {PIXELS_MAX:,} pixels and "
            f"{SEGMENTS_MAX:,} rows; try another number of --tiles, at least {-(-width * height // PIXELS_MAX)}"
        )
    columns, rows = min(grids, key=lambda grid: -(-width // grid[0]) - (-height // grid[1]))
    lefts, tops = _cuts(width, columns), _cuts(height, rows)
    return tuple(
        TilePlace(left, top, right - left, bottom - top)
        for top, bottom in pairwise(tops)
        for left, right in pairwise(lefts)
    )


def _is_allowed(columns: int, rows: int) -> bool:
    return columns * rows <= PIXELS_MAX and rows <= SEGMENTS_MAX


def _cuts(length: int, count: int) -> list[int]:
    return [length * number // count for number in range(count + 1)]
