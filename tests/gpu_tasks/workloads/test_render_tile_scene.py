"""Scenes as text: accepted and refused statements with their messages, limits, and the cost of a tile."""

import contextlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.workloads.render_tile import request as requests
from gpu_tasks.workloads.render_tile.fixed_point import ONE, WHITE, light_of
from gpu_tasks.workloads.render_tile.request import (
    COST_MAX,
    OUTPUT,
    PIXELS_MAX,
    REQUEST,
    TESTS,
    TileOutput,
    TileRequest,
    decode_request,
    read_request,
    request_of,
)
from gpu_tasks.workloads.render_tile.scene import BoxShape, PlaneShape, SphereShape, SurfaceKind
from gpu_tasks.workloads.render_tile.scene_text import (
    BOUNCES_MAX,
    OBJECTS_MAX,
    SAMPLES_MAX,
    SIDE_MAX,
    TEXT_BYTES_MAX,
    SceneError,
    TilePlace,
    read_text,
)
from render_scenes import SMALL, scene_texts
from runtime.encoding.codec import DecodeError

UNIT = 1 << 16
UNIT_BYTES_MAX = 256 * 1024
"""Of a unit's request and of its output: `gpu_tasks/data/unit_input.py`."""
VIEW = "picture 8 4; camera 0 0 -3 0 0 0 1; "
BALL = "sphere 0 0 0 1 matte #ffffff"


def asked_of(text: str, segment: int = 1) -> TileRequest:
    return request_of(read_text(text), segment)


# ---------------------------------------------------------------------------------------------------------------- read


def test_a_scene_is_read_into_numbers() -> None:
    scene = read_text(SMALL).scene
    assert (scene.width, scene.height, scene.samples, scene.bounces, scene.seed) == (12, 9, 3, 4, 5)
    assert scene.camera.eye == (0, 78_643, -4 * UNIT)
    assert scene.camera.right == (ONE, 0, 0)
    assert scene.camera.zoom == 85_197
    floor, mirror, box, lamp = scene.objects
    assert isinstance(floor.shape, PlaneShape)
    assert (floor.shape.normal, floor.shape.height) == ((0, ONE, 0), 0)
    assert mirror.shape == SphereShape((-58_982, 52_429, 19_661), 52_429)
    assert box.shape == BoxShape((19_661, 0, -26_214), (85_197, 58_982, 39_322))
    assert [thing.surface.kind for thing in scene.objects] == [
        SurfaceKind.CHECKED,
        SurfaceKind.MIRROR,
        SurfaceKind.MATTE,
        SurfaceKind.LIGHT,
    ]
    assert lamp.surface.colour == (3 * WHITE, light_of(0xD9) * 3, light_of(0xA0) * 3)
    assert floor.surface.other == (light_of(0x38), light_of(0x46), light_of(0x58))


def test_the_compact_form_says_the_same_in_one_line() -> None:
    read = read_text(SMALL)
    assert read.compact.startswith("picture 12 9; samples 3; bounces 4; seed 5; camera 0 1.2 -4 0 0.7 0 1.3; sky #6f")
    assert "\n" not in read.compact
    assert read_text(read.compact) == read
    tiled = read_text(SMALL + "tile 1 2 3 4 // of it")
    assert (tiled.tile, tiled.compact, tiled.scene) == (TilePlace(1, 2, 3, 4), read.compact, read.scene)


def test_what_is_left_out_has_a_default() -> None:
    scene = read_text(VIEW + BALL).scene
    assert (scene.samples, scene.bounces, scene.seed, scene.sun) == (16, 4, 0, None)
    assert max(scene.sky.horizon) < WHITE


def test_numbers_are_read_exactly() -> None:
    scene = read_text("picture 8 4; camera 0.001 -0.5 -499.999 0 0 0 16; " + BALL).scene
    assert scene.camera.eye == (66, -32_768, -32_767_934)
    assert read_text("picture 8 4; camera -0 0 -3 0 0 0 1.0; " + BALL).scene.camera.eye == (0, 0, -3 * UNIT)


@given(text=scene_texts(far=True))
def test_a_text_has_one_compact_form(text: str) -> None:
    read = read_text(text.replace("; ", " // a remark\n\n  ").replace(" ", "\t "))
    assert read.compact == text
    assert read_text(text) == read


# ------------------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no picture; add picture WIDTH"),
        ("picture 8 4; " + BALL, "no camera; add camera"),
        (VIEW, "has no object"),
        (VIEW + "\n\ncone 0 0 0", "line 3: 'cone' .* picture, tile, samples"),
        (VIEW + "picture 8 4", "line 1: picture appears"),
        ("tile 0 0 1 1; tile 1 0 1 1", "line 1: tile appears"),
        ("picture 8", "line 1: picture .*few .*picture WIDTH HEIGHT"),
        ("picture 8 4 2", "line 1: picture .*many .*picture WIDTH HEIGHT"),
        ("picture 0 4", "picture .*1 to 4,096, not '0'"),
        ("picture 4097 4096", "picture .*1 to 4,096, not '4097'"),
        ("picture 8.5 4", "not '8.5'"),
        ("picture ٣ 4", "line 1: '٣' .*ASCII"),
        ("picture 99999999999 4", "not '99999999999'"),
        ("picture 17 1", "picture .*16 times"),
        ("picture 1 17", "picture .*16 times"),
        ("samples 0", "samples .*1 to 1,024, not '0'"),
        ("samples 1025", "not '1025'"),
        ("bounces 9", "bounces .*1 to 8, not '9'"),
        ("seed 4294967296", "seed .*0 to 4,294,967,295, not '4294967296'"),
        ("seed -1", "not '-1'"),
        ("tile 0 0 0 4", "tile .*1 to 4,096, not '0'"),
        ("camera 0 0 0 0 5 0 1", "camera looks straight"),
        ("camera 0 0 0 0 0 0 1", "camera looks straight"),
        ("camera 0 0 0 0 0 1 0.249", "camera .*0.25 to 16 .*not '0.249'"),
        ("camera 0 0 0 0 0 1 16.001", "not '16.001'"),
        ("camera 500.001 0 0 0 0 1 1", "camera .*-500 to 500"),
        ("camera 0.0001 0 0 0 0 1 1", "not '0.0001'"),
        ("camera 1e2 0 0 0 0 1 1", "not '1e2'"),
        ("camera .5 0 0 0 0 1 1", "not '.5'"),
        ("camera 5. 0 0 0 0 1 1", "not '5.'"),
        ("camera --5 0 0 0 0 1 1", "not '--5'"),
        ("camera +5 0 0 0 0 1 1", r"not '\+5'"),
        ("camera nan 0 0 0 0 1 1", "not 'nan'"),
        ("sky #fff #ffffff 1", "sky .*#c04030, not '#fff'"),
        ("sky #FFFFFF #ffffff 1", "not '#FFFFFF'"),
        ("sky #ffffff #gfffff 1", "not '#gfffff'"),
        ("sky #ffffff #ffffff 100.001", "sky .*0 to 100"),
        ("sun 0 0 0 #ffffff 1", "sun .*zero length"),
        ("sun 0 1 0 #ffffff -1", "sun .*0 to 100"),
        ("sphere 0 0 0 1", "sphere .*few .*sphere X Y Z RADIUS SURFACE"),
        ("sphere 0 0 0 0.015 matte #ffffff", "sphere .*0.016 to 500"),
        ("sphere 0 0 0 1 glass #ffffff", "sphere .*matte, checked, mirror, light .*'glass'"),
        ("sphere 0 0 0 1 matte", "sphere .*matte takes a colour$"),
        ("sphere 0 0 0 1 matte #ffffff #ffffff", "sphere .*matte takes a colour$"),
        ("sphere 0 0 0 1 checked #ffffff", "sphere .*checked takes two colours"),
        ("sphere 0 0 0 1 light #ffffff", "sphere .*light .*strength"),
        ("sphere 0 0 0 1 light #ffffff 101", "sphere .*0 to 100"),
        ("plane 0 0 0 0 0 0 matte #ffffff", "plane .*zero length"),
        ("box 0 0 0 1 0 1 matte #ffffff", "box is empty"),
        ("box 0 0 0 1 -1 1 matte #ffffff", "box is empty"),
        ("sphere " + "9" * 60 + " 0 0 1 matte #ffffff", "not '9999999999999999999999999999999999999999…'"),
        ("sphere 0 0 0 1 matte #ff\x00fff", "ASCII"),
        (f"{BALL}; " * 65, "line 1: sphere .*64 objects"),
        ("// " + "x" * TEXT_BYTES_MAX, "more than 8,192"),
        ("// " + "ü" * (TEXT_BYTES_MAX // 2), "more than 8,192"),
        ("// \ud800" + "x" * TEXT_BYTES_MAX, "more than 8,192"),
    ],
)
def test_what_is_no_scene_is_said_with_its_line(text: str, why: str) -> None:
    with pytest.raises(SceneError, match=why):
        read_text(text)


@given(text=st.one_of(st.text(max_size=60), st.text("picture tlesahbox0123456789.-#;\n/ ", max_size=80)))
def test_whatever_a_text_is_it_is_a_scene_or_an_error(text: str) -> None:
    with contextlib.suppress(SceneError):
        read_text(VIEW + text)


# ------------------------------------------------------------------------------------------------------------ requests


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"columns": 0}, "without columns or rows"),
        ({"rows": 0}, "without columns or rows"),
        ({"left": 1}, "tile 1 0 8 4 .*8 by 4"),
        ({"top": 3, "rows": 2}, "tile 0 3 8 2 .*8 by 4"),
        ({"segment": 0}, "segment .*1 to 4, .*: 0 "),
        ({"segment": 5}, "segment .*1 to 4, .*: 5 "),
        ({"scene": b"picture 8 4"}, "no camera"),
        ({"scene": (VIEW + BALL + "; tile 0 0 1 1").encode()}, "its compact form"),
        ({"scene": (VIEW + " " + BALL).encode()}, "its compact form"),
        ({"scene": (VIEW + BALL + "; // ü").encode()}, "its compact form"),
        ({"scene": b"\xff" + (VIEW + BALL).encode()}, "ASCII"),
    ],
)
def test_tiles_that_are_none_are_named(change: dict[str, Any], why: str) -> None:
    bad = replace(asked_of(VIEW + BALL), **change)
    with pytest.raises(DecodeError, match=why):
        decode_request(REQUEST.encode(bad))


def test_tiles_that_are_too_large_are_named() -> None:
    picture = "picture 4096 4096; samples 1; bounces 1; camera 0 0 -3 0 0 0 1; "
    for tile, why in (
        ("tile 0 0 4096 17", "69,632 .*65,536"),
        ("tile 0 0 1 1024", "1024 rows .*1023 .*at least 2"),
    ):
        with pytest.raises(DecodeError, match=why):
            decode_request(REQUEST.encode(asked_of(f"{picture}{tile}; {BALL}")))
    decode_request(REQUEST.encode(asked_of(f"{picture}tile 0 0 64 1023; {BALL}")))
    decode_request(REQUEST.encode(asked_of(f"{picture}tile 0 0 64 1024; {BALL}", 2)))
    dear = f"picture 128 128; samples {SAMPLES_MAX}; bounces {BOUNCES_MAX}; camera 0 0 -3 0 0 0 1; {BALL}"
    assert decode_request(REQUEST.encode(asked_of(dear))).cost == 12_800
    many = "; ".join([dear, *[BALL] * (OBJECTS_MAX - 1)])
    with pytest.raises(DecodeError, match=r"45,056, .*30,000"):
        decode_request(REQUEST.encode(asked_of(many)))


@given(data=st.binary(max_size=200))
def test_bytes_are_a_request_in_one_way_or_not_at_all(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        decode_request(data)
    whole = REQUEST.encode(asked_of(SMALL))
    for bad in (whole[: len(data)], whole + data + b"\0"):
        with pytest.raises(DecodeError):
            decode_request(bad)


def test_the_largest_request_and_its_output_fit_a_unit() -> None:
    asked = replace(asked_of(VIEW + BALL), scene=bytes(TEXT_BYTES_MAX))
    assert len(REQUEST.encode(asked)) < UNIT_BYTES_MAX
    output = TileOutput(COST_MAX, bytes(32), SIDE_MAX, SIDE_MAX, SIDE_MAX, SIDE_MAX, bytes(3 * PIXELS_MAX))
    assert len(OUTPUT.encode(output)) < UNIT_BYTES_MAX


def test_costs_are_known_from_the_request_and_grow_with_the_work() -> None:
    def cost(text: str) -> int:
        return read_request(asked_of(text)).cost

    picture = "picture 128 128; samples 16; bounces 4; camera 0 0 -3 0 0 0 1; "
    assert cost(VIEW + BALL) == 1
    assert cost(picture + BALL) == 128 * 128 * 16 * 4 * (1 + requests.RAY_TESTS) // TESTS == 100
    assert cost(picture + BALL + "; sun 0 1 0 #ffffff 1") == 200
    assert cost(picture + BALL + "; tile 64 64 64 64") == 25
    assert cost(picture + "; ".join([BALL] * 26)) == 200
    assert cost(picture.replace("samples 16", "samples 17") + BALL) == 107, "a part of a unit is a whole one"
    assert cost(picture.replace("bounces 4", "bounces 8") + BALL) == 200
