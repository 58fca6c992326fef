"""A scene as values: places and sizes in units of 2**-16, directions in units of 2**-20, light in units of 2**-16.

Always: whatever is here is within the limits that the bounds of `fixed_point.py` start from.
"""

from dataclasses import dataclass
from enum import IntEnum

from gpu_tasks.workloads.render_tile.fixed_point import Vector

Light = tuple[int, int, int]
"""Red, green, blue."""


class SurfaceKind(IntEnum):
    """What becomes of a path that meets a surface."""

    MATTE = 0
    CHECKED = 1  # matte, in two colours, in squares of one unit as seen from above
    MIRROR = 2
    LIGHT = 3  # the path ends here


@dataclass(frozen=True, slots=True)
class SceneSurface:
    """A colour is the share of light that is thrown back; of a light, what it gives."""

    kind: SurfaceKind
    colour: Light
    other: Light
    """The second colour of a checked surface; else the first again."""


@dataclass(frozen=True, slots=True)
class SphereShape:
    """All places at `radius` from `centre`."""

    centre: Vector
    radius: int


@dataclass(frozen=True, slots=True)
class PlaneShape:
    """All places p with normal * p = `height`, which is in units of 2**-36: it has two sides, and no end."""

    normal: Vector
    height: int


@dataclass(frozen=True, slots=True)
class BoxShape:
    """All places between two corners, its sides along the axes."""

    low: Vector
    high: Vector


@dataclass(frozen=True, slots=True)
class SceneObject:
    """A shape and what covers it."""

    shape: SphereShape | PlaneShape | BoxShape
    surface: SceneSurface


@dataclass(frozen=True, slots=True)
class CameraView:
    """Where the eye is, and three directions: of the view, to its right, and up."""

    eye: Vector
    forward: Vector
    right: Vector
    up: Vector
    zoom: int
    """How far in front of the eye a picture of height 2 stands, in units of 2**-16."""


@dataclass(frozen=True, slots=True)
class SkyLight:
    """What comes from where nothing is: from above, and from level with the eye and below."""

    zenith: Light
    horizon: Light


@dataclass(frozen=True, slots=True)
class SunLight:
    """A disc of light in a direction, which matte surfaces alone are lit by."""

    direction: Vector
    light: Light


@dataclass(frozen=True, slots=True)
class RenderScene:
    """A picture: its size in pixels, paths for each pixel, surfaces that a path may meet, and what is to be seen."""

    width: int
    height: int
    samples: int
    bounces: int
    seed: int
    camera: CameraView
    sky: SkyLight
    sun: SunLight | None
    objects: tuple[SceneObject, ...]
