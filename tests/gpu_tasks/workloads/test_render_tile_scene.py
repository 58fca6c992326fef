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
        ("", "there is no picture: say picture WIDTH HEIGHT"),
        ("picture 8 4; " + BALL, "there is no camera: say camera X Y Z"),
        (VIEW, "there is nothing to be seen: give a sphere, a plane or a box"),
        (VIEW + "\n\ncone 0 0 0", "line 3: 'cone' says nothing of a scene; there are picture, tile, samples"),
        (VIEW + "picture 8 4", "line 1: picture is said before"),
        ("tile 0 0 1 1; tile 1 0 1 1", "line 1: tile is said before"),
        ("picture 8", "line 1: picture says too little: write picture WIDTH HEIGHT"),
        ("picture 8 4 2", "line 1: picture says too much: write picture WIDTH HEIGHT"),
        ("picture 0 4", "picture takes whole numbers from 1 to 4,096, not '0'"),
        ("picture 4097 4096", "picture takes whole numbers from 1 to 4,096, not '4097'"),
        ("picture 8.5 4", "not '8.5'"),
        ("picture ٣ 4", "line 1: '٣' has letters beside those of ASCII"),
        ("picture 99999999999 4", "not '99999999999'"),
        ("picture 17 1", "picture has one side more than 16 times the other"),
        ("picture 1 17", "picture has one side more than 16 times the other"),
        ("samples 0", "samples takes whole numbers from 1 to 1,024, not '0'"),
        ("samples 1025", "not '1025'"),
        ("bounces 9", "bounces takes whole numbers from 1 to 8, not '9'"),
        ("seed 4294967296", "seed takes whole numbers from 0 to 4,294,967,295, not '4294967296'"),
        ("seed -1", "not '-1'"),
        ("tile 0 0 0 4", "tile takes whole numbers from 1 to 4,096, not '0'"),
        ("camera 0 0 0 0 5 0 1", "camera looks straight up or down: let it look aside by a little"),
        ("camera 0 0 0 0 0 0 1", "camera looks straight up or down"),
        ("camera 0 0 0 0 0 1 0.249", "camera takes numbers from 0.25 to 16 with at most three decimals, not '0.249'"),
        ("camera 0 0 0 0 0 1 16.001", "not '16.001'"),
        ("camera 500.001 0 0 0 0 1 1", "camera takes numbers from -500 to 500 with at most three"),
        ("camera 0.0001 0 0 0 0 1 1", "not '0.0001'"),
        ("camera 1e2 0 0 0 0 1 1", "not '1e2'"),
        ("camera .5 0 0 0 0 1 1", "not '.5'"),
        ("camera 5. 0 0 0 0 1 1", "not '5.'"),
        ("camera --5 0 0 0 0 1 1", "not '--5'"),
        ("camera +5 0 0 0 0 1 1", r"not '\+5'"),
        ("camera nan 0 0 0 0 1 1", "not 'nan'"),
        ("sky #fff #ffffff 1", "sky takes colours such as #c04030, in small letters, not '#fff'"),
        ("sky #FFFFFF #ffffff 1", "not '#FFFFFF'"),
        ("sky #ffffff #gfffff 1", "not '#gfffff'"),
        ("sky #ffffff #ffffff 100.001", "sky takes numbers from 0 to 100 with"),
        ("sun 0 0 0 #ffffff 1", "sun has a direction of no length: one of its numbers is not 0"),
        ("sun 0 1 0 #ffffff -1", "sun takes numbers from 0 to 100"),
        ("sphere 0 0 0 1", "sphere says too little: write sphere X Y Z RADIUS SURFACE"),
        ("sphere 0 0 0 0.015 matte #ffffff", "sphere takes numbers from 0.016 to 500"),
        ("sphere 0 0 0 1 glass #ffffff", "sphere is covered with matte, checked, mirror, light, not 'glass'"),
        ("sphere 0 0 0 1 matte", "sphere that is matte takes a colour"),
        ("sphere 0 0 0 1 matte #ffffff #ffffff", "sphere that is matte takes a colour"),
        ("sphere 0 0 0 1 checked #ffffff", "sphere that is checked takes two colours"),
        ("sphere 0 0 0 1 light #ffffff", "sphere that is light takes a colour and a strength"),
        ("sphere 0 0 0 1 light #ffffff 101", "sphere takes numbers from 0 to 100"),
        ("plane 0 0 0 0 0 0 matte #ffffff", "plane has a direction of no length"),
        ("box 0 0 0 1 0 1 matte #ffffff", "box has no inside: each number of the second corner is greater"),
        ("box 0 0 0 1 -1 1 matte #ffffff", "box has no inside"),
        ("sphere " + "9" * 60 + " 0 0 1 matte #ffffff", "not '9999999999999999999999999999999999999999…'"),
        ("sphere 0 0 0 1 matte #ff\x00fff", "has letters beside those of ASCII"),
        (f"{BALL}; " * 65, "line 1: sphere is one too many: a scene has at most 64 objects"),
        ("// " + "x" * TEXT_BYTES_MAX, "the scene has more than 8,192 bytes: take fewer objects, or shorter remarks"),
        ("// " + "ü" * (TEXT_BYTES_MAX // 2), "more than 8,192 bytes"),
        ("// \ud800" + "x" * TEXT_BYTES_MAX, "more than 8,192 bytes"),
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
        ({"columns": 0}, "a tile has at least one column and one row"),
        ({"rows": 0}, "a tile has at least one column and one row"),
        ({"left": 1}, "the tile 1 0 8 4 lies outside of the picture, which is 8 by 4"),
        ({"top": 3, "rows": 2}, "the tile 0 3 8 2 lies outside of the picture"),
        ({"segment": 0}, "segment is 1 to 4, the rows of the tile, not 0"),
        ({"segment": 5}, "segment is 1 to 4, the rows of the tile, not 5"),
        ({"scene": b"picture 8 4"}, "there is no camera"),
        ({"scene": (VIEW + BALL + "; tile 0 0 1 1").encode()}, "the scene is not in its compact form"),
        ({"scene": (VIEW + " " + BALL).encode()}, "the scene is not in its compact form"),
        ({"scene": (VIEW + BALL + "; // ü").encode()}, "the scene is not in its compact form"),
        ({"scene": b"\xff" + (VIEW + BALL).encode()}, "letters beside those of ASCII"),
    ],
)
def test_tiles_that_are_none_are_named(change: dict[str, Any], why: str) -> None:
    bad = replace(asked_of(VIEW + BALL), **change)
    with pytest.raises(DecodeError, match=why):
        decode_request(REQUEST.encode(bad))


def test_tiles_that_are_too_large_are_named() -> None:
    picture = "picture 4096 4096; samples 1; bounces 1; camera 0 0 -3 0 0 0 1; "
    for tile, why in (
        ("tile 0 0 4096 17", "a tile of 69,632 pixels: at most 65,536; cut the picture into more tiles"),
        ("tile 0 0 1 1024", "1024 rows make more than 1023 segments; set the option segment to 2 or more"),
    ):
        with pytest.raises(DecodeError, match=why):
            decode_request(REQUEST.encode(asked_of(f"{picture}{tile}; {BALL}")))
    decode_request(REQUEST.encode(asked_of(f"{picture}tile 0 0 64 1023; {BALL}")))
    decode_request(REQUEST.encode(asked_of(f"{picture}tile 0 0 64 1024; {BALL}", 2)))
    dear = f"picture 128 128; samples {SAMPLES_MAX}; bounces {BOUNCES_MAX}; camera 0 0 -3 0 0 0 1; {BALL}"
    assert decode_request(REQUEST.encode(asked_of(dear))).cost == 12_800
    many = "; ".join([dear, *[BALL] * (OBJECTS_MAX - 1)])
    with pytest.raises(DecodeError, match="it costs 45,056: at most 30,000; take smaller tiles, or fewer samples"):
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
