"""A scene as values: places and sizes in units of 2**-16, directions in units of 2**-20, light in units of 2**-16.

Invariant: all values are within the limits that the bounds of `fixed_point.py` assume.
"""

from dataclasses import dataclass
from enum import IntEnum

from gpu_tasks.workloads.render_tile.fixed_point import Vector

Light = tuple[int, int, int]
"""Red, green, blue."""


class SurfaceKind(IntEnum):
    """The effect of a surface on a path that meets it."""

    MATTE = 0
    CHECKED = 1  # Matte, in two colours, in squares of one unit as seen from above
    MIRROR = 2
    LIGHT = 3  # The path ends here


@dataclass(frozen=True, slots=True)
class SceneSurface:
    """A surface. Its colour is the reflected share of light, or a light's own light."""

    kind: SurfaceKind
    colour: Light
    other: Light
    """The second colour of a checked surface, else the first again."""


@dataclass(frozen=True, slots=True)
class SphereShape:
    """All places at `radius` from `centre`."""

    centre: Vector
    radius: int


@dataclass(frozen=True, slots=True)
class PlaneShape:
    """All places p with normal * p = `height`, in units of 2**-36. A plane has two sides and no end."""

    normal: Vector
    height: int


@dataclass(frozen=True, slots=True)
class BoxShape:
    """All places between two corners, its sides along the axes."""

    low: Vector
    high: Vector


@dataclass(frozen=True, slots=True)
class SceneObject:
    """A shape and its surface."""

    shape: SphereShape | PlaneShape | BoxShape
    surface: SceneSurface


@dataclass(frozen=True, slots=True)
class CameraView:
    """The eye's place, and three directions: of the view, to its right, and up."""

    eye: Vector
    forward: Vector
    right: Vector
    up: Vector
    zoom: int
    """The distance from the eye of a picture of height 2, in units of 2**-16."""


@dataclass(frozen=True, slots=True)
class SkyLight:
    """The light of a ray that hits nothing: from above, and from level with the eye and below."""

    zenith: Light
    horizon: Light


@dataclass(frozen=True, slots=True)
class SunLight:
    """A disc of light in a direction. It lights only matte surfaces."""

    direction: Vector
    light: Light


@dataclass(frozen=True, slots=True)
class RenderScene:
    """A picture: its size in pixels, paths for each pixel, the most surfaces of a path, and the visible objects."""

    width: int
    height: int
    samples: int
    bounces: int
    seed: int
    camera: CameraView
    sky: SkyLight
    sun: SunLight | None
    objects: tuple[SceneObject, ...]
