"""A scene as text, with a strict parser: statements on lines of their own or separated by `;`, and `//` comments.

    picture 320 240                            // width and height in pixels
    tile 0 0 64 64                             // from the left, from the top, columns, rows; the whole if left out
    samples 16; bounces 4; seed 7
    camera 0 1.5 -6  0 1 0  1.6                // the eye, its target, zoom
    sky #6fa0e0 #e8eef6 1                      // zenith, horizon, strength
    sun 0.4 0.8 -0.5 #fff0d8 2                 // its direction, colour, strength
    plane 0 0 0  0 1 0  checked #e8e8e8 #303848
    sphere -1.2 1 0  1  mirror #f0f0f0
    box 0.5 0 -1  1.5 1 0  matte #c04030
    sphere 0 3 1  0.5  light #ffd090 4

Invariant: an error names its line and the right form. No number exceeds the limits. A text has one compact form, in one
line without comments and tile, and only that form is part of a request.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_tasks.workloads.render_tile.fixed_point import PLACE_BITS, Vector, direction_of, light_of
from gpu_tasks.workloads.render_tile.scene import (
    BoxShape,
    CameraView,
    Light,
    PlaneShape,
    RenderScene,
    SceneObject,
    SceneSurface,
    SkyLight,
    SphereShape,
    SunLight,
    SurfaceKind,
)

TEXT_BYTES_MAX = 8_192
SIDE_MAX = 4_096
ASPECT_MAX = 16
SAMPLES_MAX = 1_024
BOUNCES_MAX = 8
SEED_MAX = 2**32 - 1
OBJECTS_MAX = 64
COORDINATE_MAX = 500
RADIUS_LEAST_MILLI = 16
STRENGTH_MAX = 100
ZOOM_LEAST_MILLI, ZOOM_MAX = 250, 16
_WHOLE_DIGITS, _DECIMALS = 10, 3
_HEX_DIGITS = "0123456789abcdef"
_SHOWN_MAX = 40
_MILLI = 1_000


class SceneError(ValueError):
    """The text is no scene. The message names the line and the right form."""


@dataclass(frozen=True, slots=True)
class TilePlace:
    """A part of a picture, in pixels."""

    left: int
    top: int
    columns: int
    rows: int


@dataclass(frozen=True, slots=True)
class SceneStatement:
    """A statement as words: its name, and the words after it."""

    line: int
    name: str
    words: tuple[str, ...]

    def refused(self, why: str) -> SceneError:
        """Return the error that names the line."""
        return SceneError(f"line {self.line}: {self.name} {why}")


@dataclass(frozen=True, slots=True)
class SceneText:
    """A parsed text: the scene, the tile of its picture if the text names one, and the compact form."""

    scene: RenderScene
    tile: TilePlace | None
    compact: str


@dataclass
class _Read:
    """The values of the statements so far."""

    once: dict[str, object] = field(default_factory=dict)
    objects: list[SceneObject] = field(default_factory=list)


def statements(text: str) -> list[SceneStatement]:
    """Return the statements of a text. Raise SceneError if it is too long or has characters outside ASCII."""
    if len(text.encode("utf-8", "surrogatepass")) > TEXT_BYTES_MAX:
        raise SceneError(f"the scene has more than {TEXT_BYTES_MAX:,} bytes; take fewer objects or shorter comments")
    scene_statements = []
    for line_number, line in enumerate(text.split("\n"), 1):
        # Remarks and line breaks are no part of the scene's hash, so they must not reach its compact form.
        for part in line.partition("//")[0].split(";"):
            words = part.split()
            strange = next((word for word in words if not all("!" <= character <= "~" for character in word)), None)
            if strange is not None:
                raise SceneError(f"line {line_number}: {_shortened(strange)} has characters outside ASCII")
            if words:
                scene_statements.append(SceneStatement(line_number, words[0], tuple(words[1:])))
    return scene_statements


def read_text(text: str) -> SceneText:
    """Return the scene of a text, its compact form, and its tile. Raise SceneError if the text is no scene."""
    scene_statements = statements(text)
    parts = _Read()
    for statement in scene_statements:
        _take_statement(statement, parts)
    for name in ("picture", "camera"):
        if name not in parts.once:
            raise SceneError(f"the scene has no {name}; add {_FORMS[name]}")
    if not parts.objects:
        raise SceneError("the scene has no object; add a sphere, a plane or a box")
    once: dict[str, Any] = {**_DEFAULTS, **parts.once}
    tile, (width, height) = once.pop("tile"), once.pop("picture")
    compact = "; ".join(" ".join((each.name, *each.words)) for each in scene_statements if each.name != "tile")
    return SceneText(RenderScene(width, height, **once, objects=tuple(parts.objects)), tile, compact)


def _take_statement(statement: SceneStatement, parts: _Read) -> None:
    """Add the value of a statement."""
    name = statement.name
    if name in _SHAPES:
        if len(parts.objects) == OBJECTS_MAX:
            raise statement.refused(f"exceeds the limit of {OBJECTS_MAX} objects")
        word_count, read_shape = _SHAPES[name]
        if len(statement.words) < word_count + 1:
            raise statement.refused(f"has too few values; write {_FORMS[name]}")
        parts.objects.append(SceneObject(read_shape(statement), _read_surface(statement, statement.words[word_count:])))
        return
    if name not in _ONCE:
        raise SceneError(f"line {statement.line}: {_shortened(name)} is unknown; use one of {', '.join(_FORMS)}")
    if name in parts.once:
        raise statement.refused("appears twice")
    word_count, read_once = _ONCE[name]
    if len(statement.words) != word_count:
        raise statement.refused(
            f"has too {'few' if len(statement.words) < word_count else 'many'} values; write {_FORMS[name]}"
        )
    parts.once[name] = read_once(statement)


def _read_picture(statement: SceneStatement) -> tuple[int, int]:
    width, height = (_read_whole(statement, place, 1, SIDE_MAX) for place in (0, 1))
    if width > ASPECT_MAX * height or height > ASPECT_MAX * width:
        raise statement.refused(f"has one side more than {ASPECT_MAX} times the other")
    return width, height


def _read_tile(statement: SceneStatement) -> TilePlace:
    left, top = (_read_whole(statement, place, 0, SIDE_MAX) for place in (0, 1))
    return TilePlace(left, top, *(_read_whole(statement, place, 1, SIDE_MAX) for place in (2, 3)))


def _read_camera(statement: SceneStatement) -> CameraView:
    eye, target = _read_place(statement, 0), _read_place(statement, 3)
    x, y, z = (to - eye_coordinate for to, eye_coordinate in zip(target, eye, strict=True))
    if x == z == 0:
        raise statement.refused("looks straight up or down; move its target aside a little")
    zoom = _read_milli(statement, 6, ZOOM_LEAST_MILLI, ZOOM_MAX * _MILLI)
    level_distance_squared = x * x + z * z
    return CameraView(
        eye,
        direction_of((x, y, z)),
        direction_of((z, 0, -x)),
        direction_of((-x * y, level_distance_squared, -z * y)),
        _fixed_point(zoom),
    )


def _sky(statement: SceneStatement) -> SkyLight:
    strength = _read_strength(statement, 2)
    return SkyLight(
        _light_of_strength(_read_colour(statement, 0), strength),
        _light_of_strength(_read_colour(statement, 1), strength),
    )


def _read_sun(statement: SceneStatement) -> SunLight:
    return SunLight(
        _read_direction(statement, 0), _light_of_strength(_read_colour(statement, 3), _read_strength(statement, 4))
    )


def _read_sphere(statement: SceneStatement) -> SphereShape:
    return SphereShape(
        _read_place(statement, 0), _fixed_point(_read_milli(statement, 3, RADIUS_LEAST_MILLI, COORDINATE_MAX * _MILLI))
    )


def _read_plane(statement: SceneStatement) -> PlaneShape:
    normal = _read_direction(statement, 3)
    return PlaneShape(normal, sum(n * p for n, p in zip(normal, _read_place(statement, 0), strict=True)))


def _read_box(statement: SceneStatement) -> BoxShape:
    low, high = _read_place(statement, 0), _read_place(statement, 3)
    if any(least >= most for least, most in zip(low, high, strict=True)):
        raise statement.refused("is empty; make each number of the second corner greater than the first's")
    return BoxShape(low, high)


def _read_surface(statement: SceneStatement, words: Sequence[str]) -> SceneSurface:
    """Parse `matte COLOUR`, `checked COLOUR COLOUR`, `mirror COLOUR` or `light COLOUR STRENGTH`."""
    if words[0] not in _KINDS:
        raise statement.refused(f"needs one of {', '.join(_KINDS)} as its surface, not {_shortened(words[0])}")
    kind, first = _KINDS[words[0]], len(statement.words) - len(words) + 1
    expected_words = {SurfaceKind.CHECKED: "two colours", SurfaceKind.LIGHT: "a colour and a strength"}.get(
        kind, "a colour"
    )
    if len(words) - 1 != (1 if expected_words == "a colour" else 2):
        raise statement.refused(f"with the surface {words[0]} takes {expected_words}")
    colour = _read_colour(statement, first)
    if kind == SurfaceKind.LIGHT:
        colour = _light_of_strength(colour, _read_strength(statement, first + 1))
    return SceneSurface(
        kind,
        colour,
        _read_colour(statement, first + 1) if kind == SurfaceKind.CHECKED else colour,
    )


def _read_whole(statement: SceneStatement, place: int, least_value: int, greatest_value: int) -> int:
    word = statement.words[place]
    if not _is_whole(word, _WHOLE_DIGITS) or not least_value <= int(word) <= greatest_value:
        raise statement.refused(f"takes whole numbers from {least_value} to {greatest_value:,}, not {_shortened(word)}")
    return int(word)


def _is_whole(word: str, digits_max: int) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= digits_max


def _read_milli(statement: SceneStatement, place: int, least_value: int, greatest_value: int) -> int:
    """Return a number with at most three decimals, in thousandths, exactly."""
    word = statement.words[place]
    # A float could round a decimal to another thousandth, and the scene would have another picture.
    whole, decimal_point, decimals = word.removeprefix("-").partition(".")
    if _is_whole(whole, _WHOLE_DIGITS) and (_is_whole(decimals, _DECIMALS) if decimal_point else True):
        milli = int(whole) * _MILLI + int(f"{decimals:0<3}")
        milli = -milli if word.startswith("-") else milli
        if least_value <= milli <= greatest_value:
            return milli
    limits = f"{_decimal_text(least_value)} to {_decimal_text(greatest_value)}"
    raise statement.refused(f"takes numbers from {limits} with at most three decimals, not {_shortened(word)}")


def _read_place(statement: SceneStatement, first: int) -> Vector:
    coordinate_max = COORDINATE_MAX * _MILLI
    x, y, z = (_fixed_point(_read_milli(statement, first + axis, -coordinate_max, coordinate_max)) for axis in range(3))
    return x, y, z


def _read_direction(statement: SceneStatement, first: int) -> Vector:
    vector = _read_place(statement, first)
    if vector == (0, 0, 0):
        raise statement.refused("has a direction of zero length; one of its numbers must differ from 0")
    return direction_of(vector)


def _read_colour(statement: SceneStatement, place: int) -> Light:
    word = statement.words[place]
    if len(word) != len("#c04030") or word[0] != "#" or any(digit not in _HEX_DIGITS for digit in word[1:]):
        raise statement.refused(f"takes lower-case colours such as #c04030, not {_shortened(word)}")
    red, green, blue = (light_of(byte) for byte in bytes.fromhex(word[1:]))
    return red, green, blue


def _read_strength(statement: SceneStatement, place: int) -> int:
    return _read_milli(statement, place, 0, STRENGTH_MAX * _MILLI)


def _light_of_strength(colour: Light, milli: int) -> Light:
    red, green, blue = (channel * milli // _MILLI for channel in colour)
    return red, green, blue


def _fixed_point(milli: int) -> int:
    """Return thousandths in units of 2**-16, halves rounded up."""
    return ((milli << PLACE_BITS + 1) + _MILLI) // (2 * _MILLI)


def _decimal_text(milli: int) -> str:
    """Return a number as people write it."""
    sign, thousandths = ("-", -milli) if milli < 0 else ("", milli)
    return sign + f"{thousandths // _MILLI}.{thousandths % _MILLI:03}".rstrip("0").rstrip(".")


def _shortened(word: str) -> str:
    return repr(word if len(word) <= _SHOWN_MAX else word[:_SHOWN_MAX] + "…")


_ONCE: Mapping[str, tuple[int, Callable[[SceneStatement], object]]] = {
    "picture": (2, _read_picture),
    "tile": (4, _read_tile),
    "samples": (1, lambda statement: _read_whole(statement, 0, 1, SAMPLES_MAX)),
    "bounces": (1, lambda statement: _read_whole(statement, 0, 1, BOUNCES_MAX)),
    "seed": (1, lambda statement: _read_whole(statement, 0, 0, SEED_MAX)),
    "camera": (7, _read_camera),
    "sky": (3, _sky),
    "sun": (5, _read_sun),
}
_SHAPES: Mapping[str, tuple[int, Callable[[SceneStatement], SphereShape | PlaneShape | BoxShape]]] = {
    "sphere": (4, _read_sphere),
    "plane": (6, _read_plane),
    "box": (6, _read_box),
}
_KINDS = {
    "matte": SurfaceKind.MATTE,
    "checked": SurfaceKind.CHECKED,
    "mirror": SurfaceKind.MIRROR,
    "light": SurfaceKind.LIGHT,
}
_FORMS = {
    "picture": "picture WIDTH HEIGHT",
    "tile": "tile LEFT TOP COLUMNS ROWS",
    "samples": "samples PATHS",
    "bounces": "bounces SURFACES",
    "seed": "seed NUMBER",
    "camera": "camera X Y Z (eye) X Y Z (target) ZOOM",
    "sky": "sky COLOUR (zenith) COLOUR (horizon) STRENGTH",
    "sun": "sun X Y Z (position) COLOUR STRENGTH",
    "sphere": "sphere X Y Z RADIUS SURFACE",
    "plane": "plane X Y Z (point) X Y Z (normal) SURFACE",
    "box": "box X Y Z X Y Z (two corners) SURFACE",
}
_DEFAULTS: Mapping[str, Any] = {
    "tile": None,
    "samples": 16,
    "bounces": 4,
    "seed": 0,
    "sky": SkyLight((light_of(120), light_of(165), light_of(225)), (light_of(235), light_of(240), light_of(246))),
    "sun": None,
}
