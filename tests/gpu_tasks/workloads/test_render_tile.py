"""The light of a pixel: single steps by the numbers, bounds of all values, and backends that agree to the bit."""

import dataclasses
import math
from enum import IntEnum
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.workloads.render_tile import fixed_point as fp
from gpu_tasks.workloads.render_tile import reference as ref
from gpu_tasks.workloads.render_tile.array_arithmetic import NumpyArrays
from gpu_tasks.workloads.render_tile.backends import VectorBackend, backend_named, shown
from gpu_tasks.workloads.render_tile.conformance import light_of_all
from gpu_tasks.workloads.render_tile.reference import NOTHING, LightRay
from gpu_tasks.workloads.render_tile.scene import (
    BoxShape,
    PlaneShape,
    RenderScene,
    SceneObject,
    SceneSurface,
    SkyLight,
    SphereShape,
    SurfaceKind,
)
from gpu_tasks.workloads.render_tile.scene_text import read_text
from render_scenes import SMALL, scene_texts
from torch_here import skip_without

ONE, UNIT = fp.ONE, 1 << fp.PLACE_BITS
WHITE_PAPER = SceneSurface(SurfaceKind.MATTE, (fp.WHITE,) * 3, (fp.WHITE,) * 3)
AHEAD, UP = (0, 0, ONE), (0, ONE, 0)
BALL = SphereShape((0, 0, 0), UNIT)
FLOOR = PlaneShape(UP, 0)
CUBE = BoxShape((-UNIT, -UNIT, -UNIT), (UNIT, UNIT, UNIT))
SMALL_SCENE = read_text(SMALL).scene


def thing(shape: SphereShape | PlaneShape | BoxShape) -> SceneObject:
    return SceneObject(shape, WHITE_PAPER)


# --------------------------------------------------------------------------------------------------------- single steps


@pytest.mark.parametrize(
    ("shape", "origin", "direction", "distance"),
    [
        (BALL, (0, 0, -3 * UNIT), AHEAD, 2 * UNIT),
        (BALL, (0, 0, 0), AHEAD, UNIT),
        (BALL, (0, 0, 3 * UNIT), AHEAD, NOTHING),
        (BALL, (0, UNIT, -3 * UNIT), AHEAD, 3 * UNIT),
        (BALL, (0, UNIT + 1, -3 * UNIT), AHEAD, NOTHING),
        (BALL, (0, 0, -UNIT - fp.NEAREST), AHEAD, 2 * UNIT + fp.NEAREST),
        (BALL, (0, 0, -UNIT - fp.NEAREST - 1), AHEAD, fp.NEAREST + 1),
        (FLOOR, (0, UNIT, 0), (0, -ONE, 0), UNIT),
        (FLOOR, (0, -UNIT, 0), UP, UNIT),
        (FLOOR, (0, UNIT, 0), UP, NOTHING),
        (FLOOR, (0, UNIT, 0), AHEAD, NOTHING),
        (FLOOR, (0, UNIT, 0), (0, -1, ONE), NOTHING),
        (CUBE, (0, 0, -3 * UNIT), AHEAD, 2 * UNIT),
        (CUBE, (0, 0, 0), AHEAD, UNIT),
        (CUBE, (0, 2 * UNIT, -3 * UNIT), AHEAD, NOTHING),
        (CUBE, (0, 0, 3 * UNIT), AHEAD, NOTHING),
        (CUBE, (0, 0, 3 * UNIT), (0, 0, -ONE), 2 * UNIT),
    ],
)
def test_how_far_away_a_shape_is(shape: Any, origin: fp.Vector, direction: fp.Vector, distance: int) -> None:
    assert ref.distance_to(thing(shape), LightRay(origin, direction)) == distance


@pytest.mark.parametrize(
    ("shape", "origin", "direction", "place", "normal"),
    [
        (BALL, (0, 0, -3 * UNIT), AHEAD, (0, 0, -UNIT), (0, 0, -ONE)),
        (BALL, (0, 0, 0), AHEAD, (0, 0, UNIT), (0, 0, -ONE)),
        (FLOOR, (0, UNIT, 0), (0, -ONE, 0), (0, 0, 0), UP),
        (FLOOR, (0, -UNIT, 0), UP, (0, 0, 0), (0, -ONE, 0)),
        (CUBE, (0, 3 * UNIT, 0), (0, -ONE, 0), (0, UNIT, 0), UP),
        (CUBE, (3 * UNIT, 0, 0), (-ONE, 0, 0), (UNIT, 0, 0), (ONE, 0, 0)),
        (CUBE, (0, 0, 0), (0, -ONE, 0), (0, -UNIT, 0), UP),
    ],
)
def test_a_normal_stands_on_the_side_that_is_seen(
    shape: Any, origin: fp.Vector, direction: fp.Vector, place: fp.Vector, normal: fp.Vector
) -> None:
    assert ref.normal_at(thing(shape), LightRay(origin, direction), place) == normal


def test_of_two_as_far_away_the_first_is_met() -> None:
    objects = (thing(BALL), thing(CUBE))
    ray = LightRay((0, 0, -3 * UNIT), AHEAD)
    assert ref.nearest(objects, ray) == (2 * UNIT, objects[0])
    assert ref.nearest(objects[::-1], ray) == (2 * UNIT, objects[1])
    assert ref.nearest(objects, LightRay((0, 9 * UNIT, 0), AHEAD)) == (NOTHING, None)


def test_a_mirror_throws_back_and_a_checked_floor_changes_from_square_to_square() -> None:
    slanted = fp.scaled((0, -ONE, ONE), UP)
    x, y, z = ref.thrown_back(slanted, UP)
    assert (x, abs(y - 741_455) <= 1, abs(z - 741_455) <= 1) == (0, True, True)
    squares = [ref.is_odd_square((x * UNIT + 1, 0, z * UNIT + 1)) for x, z in ((0, 0), (1, 0), (-1, 0), (-1, -1))]
    assert squares == [False, True, True, False]


def test_the_sky_goes_from_horizon_to_zenith() -> None:
    sky = SkyLight((100, 0, 7), (0, 100, 7))
    assert [ref.sky_light(sky, (0, up, 0)) for up in (-ONE, 0, ONE // 2, ONE, ONE + 200)] == [
        (0, 100, 7),
        (0, 100, 7),
        (50, 50, 7),
        (100, 0, 7),
        (100, 0, 7),
    ]


def test_what_is_beyond_the_world_is_sky() -> None:
    edge = fp.HIT_MAX
    assert ref.is_within((edge, -edge, 0))
    assert not ref.is_within((0, 0, edge + 1))
    assert not ref.is_within((-edge - 1, 0, 0))
    lifted = ref.lifted((edge, -edge, 0), (ONE, -ONE, 0))
    assert lifted == (edge + 256, -edge - 256, 0)
    assert max(map(abs, lifted)) <= fp.WORLD_MAX


def test_bytes_and_light() -> None:
    assert [fp.byte_of(fp.light_of(byte)) for byte in range(256)] == list(range(256))
    assert (fp.light_of(0), fp.light_of(255), fp.byte_of(1 << 40)) == (0, fp.WHITE, 255)
    light = np.array([[0, 1, fp.WHITE - 1], [fp.WHITE, 1 << 37, 12_345]])
    assert shown(light * 3 + 2, 3) == bytes(fp.byte_of(int(part)) for part in light.reshape(-1))


def test_sines_are_sines() -> None:
    right = [round(math.sin(2 * math.pi * angle / fp.ANGLES) * ONE) for angle in range(fp.ANGLES)]
    assert fp.sines() == right


@given(chance=st.integers(0, 2**32 - 1))
def test_a_direction_from_anywhere_has_length_one_and_one_that_is_scattered_stays_above(chance: int) -> None:
    assert abs(fp.length(ref.anywhere(chance)) - ONE) < 4
    for normal in (UP, fp.scaled((ONE, -ONE, 3 * ONE), UP)):
        assert ref.dot(ref.scattered(normal, chance), normal) >= 0


def test_a_sum_that_is_too_short_to_have_a_direction_is_the_normal() -> None:
    assert fp.scaled((fp.SHORTEST_ROOT - 1, 0, 0), UP) == UP
    assert fp.scaled((fp.SHORTEST_ROOT, 0, 0), UP) == (ONE, 0, 0)


def test_chance_is_even_and_no_two_places_share_it() -> None:
    keys = {ref.pixel_key(seed, column, row) for seed in range(4) for column in range(32) for row in range(32)}
    assert len(keys) == 4 * 32 * 32
    draws = [fp.drawn(fp.absorbed(9, sample), number) for sample in range(512) for number in range(8)]
    for bit in range(32):
        assert abs(sum(draw >> bit & 1 for draw in draws) - 2_048) < 5 * 32, bit
    assert [fp.mixed(value) for value in (0, 1, fp.MASK)] == [0, 2_153_522_584, 3_259_049_642]


# --------------------------------------------------------------------------------------------------------------- bounds


class WatchedInt(int):
    """An integer that fails if it, or a result from it, leaves signed 64 bits."""

    watched = 0


def _watched(name: str) -> Any:
    plain = getattr(int, name)

    def calculate(self: int, *others: int) -> Any:
        found = plain(self, *others)
        if found is NotImplemented:
            return found
        assert -(1 << 63) <= found < 1 << 63, f"{name} of {int(self)} and {others} is {found}"
        WatchedInt.watched += 1
        return WatchedInt(found)

    return calculate


for _name in ("add", "sub", "mul", "floordiv", "mod", "rshift", "lshift", "and", "or", "xor"):
    setattr(WatchedInt, f"__{_name}__", _watched(f"__{_name}__"))
    setattr(WatchedInt, f"__r{_name}__", _watched(f"__r{_name}__"))
WatchedInt.__neg__ = _watched("__neg__")  # type: ignore[method-assign]


def watched(value: Any) -> Any:
    """Wrap every integer of the value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: watched(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **parts)
    if isinstance(value, tuple):
        return tuple(watched(part) for part in value)
    return WatchedInt(value) if isinstance(value, int) and not isinstance(value, IntEnum) else value


def test_what_is_watched_is_told_of() -> None:
    with pytest.raises(AssertionError, match="__mul__"):
        WatchedInt(1 << 40) * (1 << 23)
    with pytest.raises(AssertionError, match="__rlshift__"):
        1 << WatchedInt(63)


def render_watched(scene: RenderScene) -> None:
    before = WatchedInt.watched
    held = dataclasses.replace(watched(scene), samples=scene.samples, bounces=scene.bounces)
    for row in range(scene.height):
        for column in range(scene.width):
            ref.pixel_sums(held, WatchedInt(column), WatchedInt(row))
    assert WatchedInt.watched > before + 100


@given(text=scene_texts(far=True))
def test_no_value_leaves_64_bits(text: str) -> None:
    render_watched(read_text(text).scene)


@pytest.mark.parametrize("part", [0, 1, -1, fp.SLAB_LEAST, ONE + 256])
def test_the_farthest_ray_along_the_side_of_a_box_stays_within_64_bits(part: int) -> None:
    ray = LightRay(watched((-fp.WORLD_MAX,) * 3), watched((part, ONE, part)))
    assert ref.distance_to(watched(thing(BoxShape((0, 0, 0), (500 * UNIT,) * 3))), ray) >= 0


COORDINATES = st.one_of(
    st.sampled_from([-fp.WORLD_MAX, fp.WORLD_MAX, -1, 0, 1]), st.integers(-fp.WORLD_MAX, fp.WORLD_MAX)
)
PARTS = st.one_of(st.sampled_from([-ONE - 256, ONE + 256, 0, 1, -1]), st.integers(-ONE - 256, ONE + 256))


@given(origin=st.tuples(*[COORDINATES] * 3), direction=st.tuples(*[PARTS] * 3), text=scene_texts(far=True))
def test_no_ray_leaves_64_bits_wherever_it_starts(origin: fp.Vector, direction: fp.Vector, text: str) -> None:
    """Including directions longer than any real one."""
    ray = LightRay(watched(origin), watched(direction))
    for each in watched(read_text(text).scene.objects):
        distance = ref.distance_to(each, ray)
        if distance != NOTHING:
            place = ref.moved(ray, distance)
            if ref.is_within(place):
                normal = ref.normal_at(each, ray, place)
                assert max(map(abs, ref.lifted(place, normal))) <= fp.WORLD_MAX
                assert max(map(abs, normal)) <= ONE + 256


# ------------------------------------------------------------------------------------------------------------- backends


BACKENDS = ("numpy", "torch-cpu", "torch-cuda:0")


@pytest.mark.parametrize("name", BACKENDS)
@given(text=st.one_of(scene_texts(), scene_texts(far=True)))
def test_backends_give_the_light_of_the_reference(name: str, text: str) -> None:
    skip_without(name)
    scene = read_text(text).scene
    assert light_of_all(backend_named(name), scene) == light_of_all(backend_named("reference"), scene)


@pytest.mark.parametrize("first", ["sphere 0 0 0 1", "box -1 -1 -1 1 1 1", "plane 0 0 0 0 0 1"])
@pytest.mark.parametrize("name", BACKENDS)
def test_of_two_in_one_place_every_backend_sees_the_first(name: str, first: str) -> None:
    skip_without(name)
    view = "picture 3 2; samples 2; bounces 1; camera 0 0.1 -3 0 0 0 1; sky #000000 #000000 0; "
    scene = read_text(f"{view}{first} light #ff0000 1; {first} light #00ff00 1").scene
    light = light_of_all(backend_named(name), scene)
    assert light == light_of_all(backend_named("reference"), scene)
    assert {green for _, green, _ in light} == {0}


@pytest.mark.parametrize("paths", [1, 7, 64, 1 << 20])
def test_how_many_paths_go_at_once_changes_nothing(paths: int) -> None:
    use = NumpyArrays()
    use.paths = paths
    assert light_of_all(VectorBackend(use), SMALL_SCENE) == light_of_all(backend_named("numpy"), SMALL_SCENE)


def test_the_light_of_a_scene_is_what_it_always_was() -> None:
    """Golden values: one changed bit is another workload, with another id."""
    light = light_of_all(backend_named("numpy"), SMALL_SCENE)
    told = b"".join(part.to_bytes(8, "little") for pixel in light for part in pixel)
    assert blake2b(told, digest_size=16).hexdigest() == "782c0c3a0988633d544f8edf9452b359"
    alone = [list(ref.pixel_sums(SMALL_SCENE, number % 12, number // 12)) for number in (0, 41, 107)]
    assert alone == [light[number] for number in (0, 41, 107)]


def test_shadow_and_mirror_are_seen() -> None:
    """The sun lights the floor except behind objects. A mirror shows the objects before it."""
    base = "picture 1 1; samples 64; bounces 2; sky #000000 #000000 0; sun 0 1 0.001 #ffffff 1; "
    floor = "plane 0 0 0 0 1 0 matte #ffffff; camera 0 2 -2 0 0 0 16; "
    lit = ref.pixel_bytes(read_text(base + floor).scene, 0, 0)
    dark = ref.pixel_bytes(read_text(base + floor + "sphere 0 3 0 0.5 matte #ffffff").scene, 0, 0)
    assert min(lit) > 250
    assert dark == bytes(3)
    view = "camera 0 0 -3 0 0 0 8; sphere 0 0 0 1 mirror #ffffff; box -40 -40 -6 40 40 -5 light #ff0000 1"
    assert ref.pixel_bytes(read_text(base + view).scene, 0, 0) == b"\xff\0\0"
