"""Pictures bought as tiles: cut into a given number, recognised, put together."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.traces.trace import SEGMENTS_MAX
from gpu_tasks.workloads.model_forms import open_workload
from gpu_tasks.workloads.pictures import (
    PictureOrder,
    PictureOrderError,
    picture_form,
    picture_order,
    spot_checked,
    tile_requests,
)
from gpu_tasks.workloads.render_tile.request import PIXELS_MAX

EXAMPLES = Path(__file__).parents[3] / "examples"
SCENE = "picture 9 7\ntile 0 0 2 2\nsamples 1; bounces 1 // few\ncamera 0 1 -5 0 1 0 1\nsphere 0 1 0 1 matte #c04030"


def outputs_of(order: PictureOrder) -> dict[int, bytes]:
    workload = open_workload("render-tile", "numpy")
    return {number: workload.run(request) for number, request in enumerate(tile_requests(order, 1_000))}


@given(width=st.integers(1, 600), height=st.integers(1, 600), tiles=st.integers(1, 40))
def test_tiles_cover_a_picture_once(width: int, height: int, tiles: int) -> None:
    if max(width, height) > 16 * min(width, height):
        return
    try:
        order = picture_order(SCENE, tiles, (width, height))
    except PictureOrderError as error:
        assert "tiles" in str(error)  # noqa: PT017  # either is right, and what is said is looked at
        return
    assert len(order.places) == tiles
    covered = {
        (column, row)
        for each in order.places
        for column in range(each.left, each.left + each.columns)
        for row in range(each.top, each.top + each.rows)
    }
    assert len(covered) == sum(each.columns * each.rows for each in order.places) == width * height
    assert all(each.columns * each.rows <= PIXELS_MAX and each.rows <= SEGMENTS_MAX for each in order.places)


def test_tiles_are_as_near_to_squares_as_their_number_allows() -> None:
    order = picture_order(SCENE, 4, (320, 200))
    assert [(each.left, each.top, each.columns, each.rows) for each in order.places] == [
        (0, 0, 160, 100), (160, 0, 160, 100), (0, 100, 160, 100), (160, 100, 160, 100),
    ]  # fmt: skip
    assert {each.rows for each in picture_order(SCENE, 7, (320, 200)).places} == {200}


def test_a_picture_is_the_same_in_any_number_of_tiles() -> None:
    whole, cut = picture_order(SCENE, 1), picture_order(SCENE, 6)
    assert whole.png(outputs_of(whole)) == cut.png(outputs_of(cut))
    assert cut.png(outputs_of(cut)).startswith(b"\x89PNG")
    assert picture_order(SCENE, 6).lines == cut.lines, "a purchase that broke off is known again"


def test_a_size_takes_the_place_of_the_scene_s() -> None:
    order = picture_order(SCENE, 2, (20, 10))
    assert (order.width, order.height) == (20, 10)
    assert "picture 9 7" not in order.scene
    assert picture_order("camera 0 1 -5 0 1 0 1; sphere 0 1 0 1 matte #c04030", 1, (8, 8)).width == 8


@pytest.mark.parametrize(
    ("text", "tiles", "size", "why"),
    [
        ("picture 9 7", 1, None, "no camera"),
        (SCENE.replace("sphere", "spere"), 1, None, "line 5: 'spere' is"),
        (SCENE.replace("sphere", "spere"), 1, (9, 7), "line 5: 'spere' is"),
        (SCENE, 0, None, "1 to 63 here, not 0"),
        (SCENE, 64, None, "1 to 63 here, not 64"),
        (SCENE, 4, (1_000, 1_000), "at least 16"),
        (SCENE, 1, (0, 5), "picture takes"),
        (SCENE, 1, (5, 4_097), "picture takes"),
        (SCENE, 11, (9, 7), "11 tiles cannot cover 9 by 7"),
    ],
)
def test_what_is_no_picture_is_said(text: str, tiles: int, size: tuple[int, int] | None, why: str) -> None:
    with pytest.raises(PictureOrderError, match=why):
        picture_order(text, tiles, size)


def test_a_tile_that_costs_too_much_is_said() -> None:
    order = picture_order((EXAMPLES / "still-life.txt").read_text(), 2)
    with pytest.raises(PictureOrderError, match=r"a tile .* more than 100;"):
        tile_requests(order, 100)
    assert sum(picture_form().cost_asked(request) for request in tile_requests(order, 30_000)) >= 3_868


def test_what_is_not_the_tile_that_was_asked_for_is_said() -> None:
    order, other = picture_order(SCENE, 4), picture_order(SCENE.replace("#c04030", "#c04031"), 4)
    mine, strange = outputs_of(order), outputs_of(other)
    assert order.problem(2, mine[2]) is None
    assert "the requested tile" in str(order.problem(2, mine[1]))
    assert "the requested tile" in str(order.problem(2, strange[2]))
    assert order.problem(2, mine[2][:-1]) == "is not a tile"
    with pytest.raises(PictureOrderError, match=r"output 2 .*tile 4 0 5 3"):
        order.png({0: mine[0], 2: mine[2], 3: mine[3]})


def test_only_outputs_of_parts_are_spot_checked() -> None:
    order = picture_order(SCENE, 1)
    workload = spot_checked(open_workload("render-tile", "numpy"))
    (request,), output = tile_requests(order, 1_000), outputs_of(order)[0]
    assert workload.spot_check(request, output, b"s" * 32, 63).valid
    assert not workload.spot_check(request, output[:-1] + bytes([output[-1] ^ 255]), b"s" * 32, 63).valid
    with pytest.raises(TypeError, match="checked together"):
        spot_checked(open_workload("matmul-hash", "numpy"))
