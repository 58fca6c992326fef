"""One pixel of a scene in Python integers: with `fixed_point.py` it is the specification, correct by inspection.

A path starts at the eye, through a random place in the pixel, and continues from surface to surface:

    matte      lit by the sun unless an object is between; then on in a random direction near the normal
    mirror     on in the reflected direction
    light      adds its light, and the path ends
    nothing    adds the sky's light, and the path ends

Each surface multiplies the light behind it by its share. A pixel is the mean of its paths.

Invariant: a pixel depends only on the scene and its place in the picture, so each can be computed alone.
"""

from dataclasses import dataclass
from math import isqrt

from gpu_tasks.workloads.render_tile import fixed_point as fp
from gpu_tasks.workloads.render_tile.fixed_point import Vector
from gpu_tasks.workloads.render_tile.scene import (
    BoxShape,
    CameraView,
    Light,
    PlaneShape,
    RenderScene,
    SceneObject,
    SkyLight,
    SphereShape,
    SunLight,
    SurfaceKind,
)

SINES = tuple(fp.sines())
NOTHING = fp.FARTHEST
"""The distance of a ray that hits nothing."""


@dataclass(frozen=True, slots=True)
class LightRay:
    """A place and a direction."""

    origin: Vector
    direction: Vector


def pixel_sums(scene: RenderScene, column: int, row: int) -> Light:
    """Return red, green and blue, summed over all paths of a pixel, in units of 2**-16."""
    key = pixel_key(scene.seed, column, row)
    paths = [path_light(scene, column, row, fp.absorbed(key, sample)) for sample in range(scene.samples)]
    red, green, blue = (sum(channel) for channel in zip(*paths, strict=True))
    return red, green, blue


def pixel_bytes(scene: RenderScene, column: int, row: int) -> bytes:
    """Return red, green and blue of a pixel as the picture shows them."""
    return bytes(fp.byte_of(total // scene.samples) for total in pixel_sums(scene, column, row))


def pixel_key(seed: int, column: int, row: int) -> int:
    """Return the first key of a pixel's random numbers."""
    return fp.absorbed(fp.absorbed(fp.mixed(seed), row), column)


def path_light(scene: RenderScene, column: int, row: int, key: int) -> Light:
    """Return the light along one path."""
    ray = camera_ray(scene, column, row, fp.drawn(key, 0))
    share: Light = (fp.WHITE, fp.WHITE, fp.WHITE)
    collected_light: Light = (0, 0, 0)
    for bounce in range(scene.bounces):
        distance, first_hit = nearest(scene.objects, ray)
        hit_point = moved(ray, distance)
        if first_hit is None or not is_within(hit_point):
            return added(collected_light, shaded(share, sky_light(scene.sky, ray.direction)))
        surface = first_hit.surface
        if surface.kind == SurfaceKind.LIGHT:
            return added(collected_light, shaded(share, surface.colour))
        normal = normal_at(first_hit, ray, hit_point)
        # From just above the surface, or rounding would let the ray hit it again.
        lifted_origin = lifted(hit_point, normal)
        is_other = surface.kind == SurfaceKind.CHECKED and is_odd_square(hit_point)
        share = shaded(share, surface.other if is_other else surface.colour)
        if surface.kind == SurfaceKind.MIRROR:
            ray = LightRay(lifted_origin, thrown_back(ray.direction, normal))
            continue
        if scene.sun is not None:
            # Looked for at every matte surface: a path would rarely meet so small a disc, and the picture would be
            # noisy.
            sunlight = sun_light(scene, scene.sun, lifted_origin, normal, fp.drawn(key, 2 * bounce + 2))
            collected_light = added(collected_light, shaded(share, sunlight))
        ray = LightRay(lifted_origin, scattered(normal, fp.drawn(key, 2 * bounce + 1)))
    return collected_light


# ---------------------------------------------------------------------------------------------------------------- rays


def camera_ray(scene: RenderScene, column: int, row: int, chance: int) -> LightRay:
    """Return a ray from the eye through a place in a pixel: 16 random bits across it, and 16 down."""
    camera = scene.camera
    # Both axes are divided by the height, so that pixels are square in a picture of any width.
    across = (2 * ((column << 16) + (chance & 0xFFFF)) - (scene.width << 16) << 4) // scene.height
    down = (2 * ((row << 16) + (chance >> 16)) - (scene.height << 16) << 4) // scene.height
    return LightRay(camera.eye, fp.scaled(_view(camera, across, down), camera.forward))


def _view(camera: CameraView, across: int, down: int) -> Vector:
    """Return the sum of the camera's directions, in units of 2**-20: right, down, and forward to the picture."""
    ahead = camera.zoom << 4
    parts = zip(camera.right, camera.up, camera.forward, strict=True)
    x, y, z = (across * right - down * up + ahead * forward >> fp.DIRECTION_BITS for right, up, forward in parts)
    return x, y, z


def moved(ray: LightRay, distance: int) -> Vector:
    """Return the place at a distance along a ray."""
    x, y, z = (o + (distance * d >> fp.DIRECTION_BITS) for o, d in zip(ray.origin, ray.direction, strict=True))
    return x, y, z


def is_within(point: Vector) -> bool:
    """Return True if a place is near enough for a ray to start there."""
    return all(-fp.HIT_MAX <= coordinate <= fp.HIT_MAX for coordinate in point)


def lifted(point: Vector, normal: Vector) -> Vector:
    """Return the place just above a surface."""
    x, y, z = (p + (n >> fp.LIFT_SHIFT) for p, n in zip(point, normal, strict=True))
    return x, y, z


def thrown_back(direction: Vector, normal: Vector) -> Vector:
    """Return the reflected direction."""
    twice = 2 * dot(direction, normal) >> fp.DIRECTION_BITS
    parts = zip(direction, normal, strict=True)
    x, y, z = (d - (twice * n >> fp.DIRECTION_BITS) << fp.SCALED_BITS for d, n in parts)
    return fp.scaled((x, y, z), normal)


def scattered(normal: Vector, chance: int) -> Vector:
    """Return a direction near the normal with the distribution of matte light: the normal plus a uniform direction."""
    x, y, z = (n + u << fp.SCALED_BITS for n, u in zip(normal, anywhere(chance), strict=True))
    return fp.scaled((x, y, z), normal)


def anywhere(chance: int) -> Vector:
    """Return a direction, uniformly distributed: 20 random bits for its height, 12 for its angle."""
    height = 2 * (chance >> 12) - fp.ONE + 1
    around = isqrt((1 << 2 * fp.DIRECTION_BITS) - height * height)
    angle = chance & fp.ANGLES - 1
    cosine, sine = SINES[angle + fp.ANGLES // 4 & fp.ANGLES - 1], SINES[angle]
    return around * cosine >> fp.DIRECTION_BITS, height, around * sine >> fp.DIRECTION_BITS


# ------------------------------------------------------------------------------------------------------------- objects


def nearest(objects: tuple[SceneObject, ...], ray: LightRay) -> tuple[int, SceneObject | None]:
    """Return the distance of the first object that a ray hits, and the object.

    Of equals, take the first in the list.
    """
    best_distance, object_hit = NOTHING, None
    for scene_object in objects:
        distance = distance_to(scene_object, ray)
        if distance < best_distance:
            best_distance, object_hit = distance, scene_object
    return best_distance, object_hit


def distance_to(scene_object: SceneObject, ray: LightRay) -> int:
    """Return the distance of an object along a ray, or `NOTHING` if it is missed, too near or too far."""
    shape = scene_object.shape
    if isinstance(shape, SphereShape):
        near_distance, far_distance = _through_sphere(shape, ray)
    elif isinstance(shape, BoxShape):
        near_distance, far_distance = _through_box(shape, ray)
    else:
        near_distance = far_distance = _to_plane(shape, ray)
    # From inside of a sphere or box, the entry lies behind the ray and the exit counts.
    distance = near_distance if near_distance > fp.NEAREST else far_distance
    return distance if fp.NEAREST < distance < fp.FARTHEST else NOTHING


def _through_sphere(shape: SphereShape, ray: LightRay) -> tuple[int, int]:
    """Return the entry and the exit of a ray: half a chord before and after the place nearest to the centre."""
    apart = tuple(o - c for o, c in zip(ray.origin, shape.centre, strict=True))
    along = -dot(apart, ray.direction) >> fp.DIRECTION_BITS  # type: ignore[arg-type]  # three
    # From the place that is nearest to the centre: its squares stay below 2**62.
    aside = [a + (along * d >> fp.DIRECTION_BITS) for a, d in zip(apart, ray.direction, strict=True)]
    half_squared = shape.radius * shape.radius - sum(part * part for part in aside)
    if half_squared < 0:
        return NOTHING, NOTHING
    half_chord = isqrt(half_squared)
    return along - half_chord, along + half_chord


def _to_plane(shape: PlaneShape, ray: LightRay) -> int:
    slope = dot(shape.normal, ray.direction) >> fp.DIRECTION_BITS
    return (shape.height - dot(shape.normal, ray.origin)) // slope if slope else NOTHING


def _through_box(shape: BoxShape, ray: LightRay) -> tuple[int, int]:
    """Return the part of a ray that is between all three pairs of sides."""
    slabs = _slabs(shape, ray)
    near, far = max(enter for enter, _ in slabs), min(leave for _, leave in slabs)
    return (near, far) if near <= far else (NOTHING, NOTHING)


def _slabs(shape: BoxShape, ray: LightRay) -> list[tuple[int, int]]:
    """Return, for each axis, the part of a ray between the two sides across it."""
    slabs = []
    for low, high, o, d in zip(shape.low, shape.high, ray.origin, ray.direction, strict=True):
        inverse = (1 << fp.SLAB_BITS) // _not_level(d)
        first, second = ((slab_side - o) * inverse >> fp.DIRECTION_BITS for slab_side in (low, high))
        slabs.append((min(first, second), max(first, second)))
    return slabs


def _not_level(coordinate: int) -> int:
    """Return a coordinate of a direction, kept away from 0."""
    # A ray parallel to a side would divide by zero, and a smaller divisor would exceed the bound for slabs.
    return max(coordinate, fp.SLAB_LEAST) if coordinate >= 0 else min(coordinate, -fp.SLAB_LEAST)


def normal_at(scene_object: SceneObject, ray: LightRay, point: Vector) -> Vector:
    """Return the direction away from a surface, on the side of the arriving ray."""
    shape = scene_object.shape
    if isinstance(shape, BoxShape):
        return _box_normal(shape, ray)
    normal = shape.normal if isinstance(shape, PlaneShape) else _sphere_normal(shape, point, ray)
    x, y, z = normal
    return (-x, -y, -z) if dot(normal, ray.direction) > 0 else normal


def _sphere_normal(shape: SphereShape, point: Vector, ray: LightRay) -> Vector:
    x, y, z = (p - c << fp.NORMAL_BITS for p, c in zip(point, shape.centre, strict=True))
    return fp.scaled((x, y, z), ray.direction)


def _box_normal(shape: BoxShape, ray: LightRay) -> Vector:
    """Return the normal against the ray along the axis of the side that it meets.

    That side is the last one that the ray enters or, from inside, the first that it leaves.
    """
    slabs = _slabs(shape, ray)
    near, far = [enter for enter, _ in slabs], [leave for _, leave in slabs]
    axis = near.index(max(near)) if max(near) > fp.NEAREST else far.index(min(far))
    towards = -fp.ONE if ray.direction[axis] >= 0 else fp.ONE
    x, y, z = (towards if place == axis else 0 for place in range(3))
    return x, y, z


def is_odd_square(point: Vector) -> bool:
    """Return True if a place is in a square of the second colour: squares of one unit, as seen from above."""
    return ((point[0] >> fp.PLACE_BITS) + (point[2] >> fp.PLACE_BITS)) % 2 == 1


# --------------------------------------------------------------------------------------------------------------- light


def sky_light(sky: SkyLight, direction: Vector) -> Light:
    """Return the light between horizon and zenith, by the upward part of a direction."""
    up = min(max(direction[1], 0), fp.ONE)
    parts = zip(sky.zenith, sky.horizon, strict=True)
    red, green, blue = (low + ((high - low) * up >> fp.DIRECTION_BITS) for high, low in parts)
    return red, green, blue


def sun_light(scene: RenderScene, sun: SunLight, origin: Vector, normal: Vector, chance: int) -> Light:
    """Return the sun's light at a place, by its angle to the surface. An object in between blocks it."""
    parts = zip(sun.direction, anywhere(chance), strict=True)
    x, y, z = (s + (u >> fp.SUN_SHIFT) << fp.SCALED_BITS for s, u in parts)
    towards = fp.scaled((x, y, z), sun.direction)
    steep = dot(towards, normal) >> fp.DIRECTION_BITS
    # The cheap test first: a surface that faces away is dark without a look for objects.
    if steep <= 0 or nearest(scene.objects, LightRay(origin, towards))[1] is not None:
        return 0, 0, 0
    red, green, blue = (part * steep >> fp.DIRECTION_BITS for part in sun.light)
    return red, green, blue


def shaded(share: Light, light: Light) -> Light:
    """Return a share of light, or of another share."""
    red, green, blue = (part * arriving >> fp.LIGHT_BITS for part, arriving in zip(share, light, strict=True))
    return red, green, blue


def added(light_so_far: Light, further_light: Light) -> Light:
    """Return the sum of two lights."""
    return light_so_far[0] + further_light[0], light_so_far[1] + further_light[1], light_so_far[2] + further_light[2]


def dot(left: Vector, right: Vector) -> int:
    """Return the sum of products."""
    return left[0] * right[0] + left[1] * right[1] + left[2] * right[2]
