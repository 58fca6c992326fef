"""Pictures from tiles: equal to the whole rendering, and missing or foreign tiles are named."""

import struct
import zlib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tasks.workloads.model_forms import open_workload
from gpu_tasks.workloads.render_tile.form import TileForm
from gpu_tasks.workloads.render_tile.picture import (
    PictureError,
    RenderedPicture,
    assembled,
    output_of_state,
    png_of,
)
from gpu_tasks.workloads.render_tile.request import COST_MAX, OUTPUT, TileOutput, decode_request
from gpu_tasks.workloads.render_tile.scene_text import TilePlace, read_text
from gpu_tasks.workloads.stepwise import states, stepwise
from render_scenes import SMALL, scene_texts
from runtime.encoding.codec import DecodeError

ROOT = Path(__file__).parents[3]
FORM, WORKLOAD = TileForm(), open_workload("render-tile")


@cache
def output_of(text: str) -> bytes:
    return WORKLOAD.run(FORM.encode(text, COST_MAX, {}, bytes(32)))


def tile_of(text: str) -> TileOutput:
    return OUTPUT.decode(output_of(text))


def cut(text: str, columns: int, rows: int) -> list[str]:
    """Return a text for each tile of this size. Those at the right and at the bottom are smaller."""
    scene = read_text(text).scene
    return [
        f"{text}; tile {left} {top} {min(columns, scene.width - left)} {min(rows, scene.height - top)}"
        for top in range(0, scene.height, rows)
        for left in range(0, scene.width, columns)
    ]


WHOLE = tile_of(SMALL)
TILES = [output_of(text) for text in cut(SMALL, 5, 4)]
PICTURE = RenderedPicture(12, 9, WHOLE.pixels)


def spoiled(**change: Any) -> bytes:
    """Change the fifth tile, that of columns 5 to 9 and rows 4 to 7."""
    return OUTPUT.encode(replace(OUTPUT.decode(TILES[4]), **change))


# ------------------------------------------------------------------------------------------------------------ assembled


def test_tiles_make_the_picture_that_is_rendered_whole() -> None:
    assert len(TILES) == 9
    assert assembled(SMALL, TILES) == PICTURE
    assert assembled(SMALL, [*reversed(TILES), TILES[0]]) == PICTURE, "in any order, and one of them twice"


@settings(max_examples=30)
@given(text=scene_texts(), columns=st.integers(1, 6), rows=st.integers(1, 6))
def test_however_a_picture_is_cut_it_is_the_same(text: str, columns: int, rows: int) -> None:
    whole, scene = tile_of(text), read_text(text).scene
    tiles = [output_of(each) for each in cut(text, columns, rows)]
    assert assembled(text, tiles) == RenderedPicture(scene.width, scene.height, whole.pixels)


def test_the_states_of_a_task_are_tiles_too_and_what_is_left_can_be_asked_for() -> None:
    request = FORM.encode(SMALL, COST_MAX, {"segment": "4"}, bytes(32))
    first, upper, _, last = states(stepwise(WORKLOAD).begin(request))
    assert output_of_state(request, last) == output_of(SMALL)
    with pytest.raises(PictureError) as caught:
        assembled(SMALL, [output_of_state(request, upper)])
    assert caught.value.problems == ("missing: tile 0 4 12 5",)
    assert assembled(SMALL, [output_of_state(request, upper), output_of(SMALL + "tile 0 4 12 5")]) == PICTURE
    for bad, why in ((first, "without rows"), (upper[:-1], "another length"), (b"", "another request")):
        with pytest.raises(DecodeError, match=why):
            output_of_state(request, bad)


# ------------------------------------------------------------------------------------------------------------- problems


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (b"", "output 5 is missing"),
        (b"\1\2\3", "output 5 is not a tile"),
        (TILES[4][:-1], "output 5 is not a tile"),
        (spoiled(picture=bytes(32)), "output 5, tile 5 4 5 4, is part of another picture"),
        (spoiled(left=8), "output 5, tile 8 4 5 4, is outside of the picture of 12 by 9"),
        (spoiled(top=6), "output 5, tile 5 6 5 4, is outside of the picture of 12 by 9"),
        (spoiled(pixels=bytes(57)), "output 5, tile 5 4 5 4, has 57 bytes for 20 pixels"),
    ],
)
def test_a_tile_that_does_not_belong_is_named_and_missing(bad: bytes, problem: str) -> None:
    with pytest.raises(PictureError) as caught:
        assembled(SMALL, [*TILES[:4], bad, *TILES[5:]])
    assert caught.value.problems == (problem, "missing: tile 5 4 5 4")
    assert caught.value.missing == (TilePlace(5, 4, 5, 4),)
    assert problem in str(caught.value)


def test_tiles_that_are_at_odds_are_named_with_the_pixel() -> None:
    tile = OUTPUT.decode(TILES[4])
    lie = OUTPUT.encode(replace(tile, pixels=tile.pixels[:24] + bytes([tile.pixels[24] ^ 1]) + tile.pixels[25:]))
    with pytest.raises(PictureError) as caught:
        assembled(SMALL, [*TILES, lie])
    assert caught.value.problems == ("output 10, tile 5 4 5 4, differs from an earlier one at column 8, row 5",)
    assert not caught.value.missing


def test_what_is_missing_is_told_as_tiles_to_ask_for() -> None:
    with pytest.raises(PictureError) as caught:
        assembled(SMALL, [])
    assert caught.value.missing == (TilePlace(0, 0, 12, 9),)
    left = [TILES[0], TILES[4], TILES[8]]
    with pytest.raises(PictureError) as caught:
        assembled(SMALL, left)
    missing = caught.value.missing
    assert missing == (TilePlace(5, 0, 7, 4), TilePlace(0, 4, 5, 5), TilePlace(10, 4, 2, 4), TilePlace(5, 8, 5, 1))
    asked = [output_of(f"{SMALL}; tile {each.left} {each.top} {each.columns} {each.rows}") for each in missing]
    assert assembled(SMALL, [*left, *asked]) == PICTURE


def test_what_is_missing_is_never_more_than_a_tile_may_have() -> None:
    text = "picture 1024 300; samples 1; bounces 1; camera 0 0 -3 0 0 0 1; sphere 0 0 0 1 matte #ffffff"
    with pytest.raises(PictureError) as caught:
        assembled(text, [])
    assert [(each.columns, each.rows) for each in caught.value.missing] == [(1_024, 64)] * 4 + [(1_024, 44)]


# ---------------------------------------------------------------------------------------------------------------- files


def test_the_page_makes_a_picture_of_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the page's Python unchanged, over the example with one path for each pixel instead of 48."""
    scene = (ROOT / "examples" / "still-life.txt").read_text(encoding="utf-8")
    assert decode_request(FORM.encode(scene, 4_000, {}, bytes(32))).cost == 3_868
    page = (ROOT / "docs" / "workloads" / "render-tile.md").read_text(encoding="utf-8")
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "still-life.txt").write_text(scene.replace("samples 48", "samples 1"))
    monkeypatch.chdir(tmp_path)
    exec(page.split("```python\n")[1].split("```")[0], {})  # ours
    assert struct.unpack_from(">II", (tmp_path / "still-life.png").read_bytes(), 16) == (320, 200)


def test_a_png_file_has_the_pixels() -> None:
    """Parsed by the format's specification: chunks with their checksums, rows that begin with their filter."""
    data, chunks, start = png_of(PICTURE), [], 8
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    while start < len(data):
        (length,) = struct.unpack_from(">I", data, start)
        kind, body = data[start + 4 : start + 8], data[start + 8 : start + 8 + length]
        assert struct.unpack_from(">I", data, start + 8 + length) == (zlib.crc32(kind + body),)
        chunks.append((kind, body))
        start += 12 + length
    assert [kind for kind, _ in chunks] == [b"IHDR", b"IDAT", b"IEND"]
    assert chunks[0][1] == struct.pack(">II5B", 12, 9, 8, 2, 0, 0, 0)
    rows = zlib.decompress(chunks[1][1])
    assert len(rows) == 9 * 37
    assert {rows[start] for start in range(0, len(rows), 37)} == {0}
    assert b"".join(rows[start + 1 : start + 37] for start in range(0, len(rows), 37)) == WHOLE.pixels
