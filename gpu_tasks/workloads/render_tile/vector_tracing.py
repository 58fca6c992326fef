"""Many paths at once, in arrays of a backend: the same integers as `reference.py`, which explains them.

Vectors are arrays `[3, n]`, a path in each column. Ended paths are left out of later calculations.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_tasks.workloads.render_tile import fixed_point as fp
from gpu_tasks.workloads.render_tile.array_arithmetic import ArrayArithmetic, Int64Array, PathArray
from gpu_tasks.workloads.render_tile.reference import SINES
from gpu_tasks.workloads.render_tile.scene import (
    BoxShape,
    PlaneShape,
    RenderScene,
    SceneObject,
    SphereShape,
    SurfaceKind,
)

NOTHING = fp.FARTHEST


@dataclass
class MovingPaths:
    """Paths on their way: their numbers, their keys, the share of light that they carry, and their rays."""

    number: PathArray
    key: PathArray
    share: PathArray
    origin: PathArray
    direction: PathArray

    def some(self, use: ArrayArithmetic, places: PathArray) -> "MovingPaths":
        """Return the paths at the places."""
        return MovingPaths(
            use.at(self.number, places),
            use.at(self.key, places),
            use.at(self.share, places),
            use.at(self.origin, places),
            use.at(self.direction, places),
        )


class VectorTracer:
    """One scene on one backend."""

    def __init__(self, use: ArrayArithmetic, scene: RenderScene) -> None:
        """Put the tables into arrays of the backend, a column for each object."""
        self._use, self._scene = use, scene
        self._sines = use.put(SINES)
        self._kinds = use.put([thing.surface.kind for thing in scene.objects])
        self._colours = _columns(use, [thing.surface.colour for thing in scene.objects])
        self._others = _columns(use, [thing.surface.other for thing in scene.objects])
        self._shapes = [_ShapeTests(use, thing) for thing in scene.objects]
        self._has_boxes = any(isinstance(thing.shape, BoxShape) for thing in scene.objects)
        camera, sky, sun = scene.camera, scene.sky, scene.sun
        self._eye, self._right, self._up, self._forward = (
            _columns(use, [vector]) for vector in (camera.eye, camera.right, camera.up, camera.forward)
        )
        self._zenith, self._horizon = _columns(use, [sky.zenith]), _columns(use, [sky.horizon])
        self._sun = None if sun is None else (_columns(use, [sun.direction]), _columns(use, [sun.light]))

    def sums(self, columns: Int64Array, rows: Int64Array) -> Int64Array:
        """Return int64[n, 3]: red, green and blue, summed over all paths of each pixel, in units of 2**-16."""
        parts = [self._sums(columns[part], rows[part]) for part in self._batches(len(columns))]
        return np.concatenate([np.zeros((0, 3), dtype=np.int64), *parts])

    def _batches(self, count: int) -> Iterator[slice]:
        """Return the pixels to follow at once, by the number of their paths."""
        step = max(1, self._use.paths // self._scene.samples)
        return (slice(start, start + step) for start in range(0, count, step))

    def _sums(self, columns: Int64Array, rows: Int64Array) -> Int64Array:
        samples = self._scene.samples
        each = np.tile(np.arange(samples), len(columns))
        column, row = (self._use.put(np.repeat(values, samples)) for values in (columns, rows))
        pixel = fp.absorbed(fp.absorbed(fp.mixed(self._scene.seed), row), column)
        seen = self._seen(column, row, fp.absorbed(pixel, self._use.put(each)))
        return self._use.take(seen.reshape(3, len(columns), samples).sum(-1)).T

    def _seen(self, column: PathArray, row: PathArray, key: PathArray) -> PathArray:
        """Return the light along each path."""
        seen, paths = key * self._use.put([[0]] * 3), self._from_the_eye(column, row, key)
        for bounce in range(self._scene.bounces):
            if not len(paths.number):
                break
            paths = self._on_from_one_surface(seen, paths, bounce)
        return seen

    # ------------------------------------------------------------------------------------------------------------ rays

    def _from_the_eye(self, column: PathArray, row: PathArray, key: PathArray) -> MovingPaths:
        scene, chance = self._scene, fp.drawn(key, 0)
        across = (2 * ((column << 16) + (chance & 0xFFFF)) - (scene.width << 16) << 4) // scene.height
        down = (2 * ((row << 16) + (chance >> 16)) - (scene.height << 16) << 4) // scene.height
        ahead = scene.camera.zoom << 4
        view = across * self._right - down * self._up + ahead * self._forward >> fp.DIRECTION_BITS
        nothing = view * 0
        number = self._use.put(np.arange(len(key)))
        return MovingPaths(
            number, key, nothing + fp.WHITE, nothing + self._eye, self._scaled(view, nothing + self._forward)
        )

    def _on_from_one_surface(self, seen: PathArray, paths: MovingPaths, bounce: int) -> MovingPaths:
        """Return the paths that continue from the surfaces that they meet, and add the light there to `seen`."""
        use = self._use
        distance, which = self._nearest(paths.origin, paths.direction)
        place = paths.origin + (distance * paths.direction >> fp.DIRECTION_BITS)
        beyond = _greatest(use, use.greater(place, -place))
        is_hit = (distance < NOTHING) & (beyond <= fp.HIT_MAX)
        missing, hitting = use.where(~is_hit), use.where(is_hit)
        self._see(seen, paths.some(use, missing), self._sky(use.at(paths.direction, missing)))
        paths, which, place = paths.some(use, hitting), use.at(which, hitting), use.at(place, hitting)
        is_light = use.at(self._kinds, which) == int(SurfaceKind.LIGHT)
        shining, going = use.where(is_light), use.where(~is_light)
        self._see(seen, paths.some(use, shining), use.at(self._colours, use.at(which, shining)))
        paths, which, place = paths.some(use, going), use.at(which, going), use.at(place, going)
        return self._thrown(seen, paths, which, place, bounce)

    def _thrown(
        self, seen: PathArray, paths: MovingPaths, which: PathArray, place: PathArray, bounce: int
    ) -> MovingPaths:
        """Return the paths from reflecting surfaces, with their share."""
        use = self._use
        kinds, normal = use.at(self._kinds, which), self._normals(which, paths, place)
        is_odd = ((place[0] >> fp.PLACE_BITS) + (place[2] >> fp.PLACE_BITS) & 1) == 1
        colour = use.choose(is_odd, use.at(self._others, which), use.at(self._colours, which))
        paths.share = paths.share * colour >> fp.LIGHT_BITS
        paths.origin = place + (normal >> fp.LIFT_SHIFT)
        is_mirror = kinds == int(SurfaceKind.MIRROR)
        matte, mirror = use.where(~is_mirror), use.where(is_mirror)
        if self._sun is not None:
            self._shine(seen, paths.some(use, matte), use.at(normal, matte), bounce)
        if bounce + 1 < self._scene.bounces:
            paths.direction[:, mirror] = self._thrown_back(use.at(paths.direction, mirror), use.at(normal, mirror))
            chance = fp.drawn(use.at(paths.key, matte), 2 * bounce + 1)
            paths.direction[:, matte] = self._scattered(use.at(normal, matte), chance)
        return paths

    def _thrown_back(self, direction: PathArray, normal: PathArray) -> PathArray:
        twice = 2 * _dot(direction, normal) >> fp.DIRECTION_BITS
        return self._scaled(direction - (twice * normal >> fp.DIRECTION_BITS) << fp.SCALED_BITS, normal)

    def _scattered(self, normal: PathArray, chance: PathArray) -> PathArray:
        return self._scaled(normal + self._anywhere(chance) << fp.SCALED_BITS, normal)

    def _anywhere(self, chance: PathArray) -> PathArray:
        """Return a direction for each, uniformly distributed."""
        height = 2 * (chance >> 12) - fp.ONE + 1
        around = self._use.root((1 << 2 * fp.DIRECTION_BITS) - height * height)
        angle = chance & fp.ANGLES - 1
        found = height * self._use.put([[0], [1], [0]])
        cosine = self._use.at(self._sines, angle + fp.ANGLES // 4 & fp.ANGLES - 1)
        found[0] = around * cosine >> fp.DIRECTION_BITS
        found[2] = around * self._use.at(self._sines, angle) >> fp.DIRECTION_BITS
        return found

    def _scaled(self, vectors: PathArray, otherwise: PathArray) -> PathArray:
        root = self._use.root(_dot(vectors, vectors))
        is_short = root < fp.SHORTEST_ROOT
        inverse = (1 << fp.RECIPROCAL_BITS) // self._use.choose(is_short, fp.SHORTEST_ROOT, root)
        found = vectors * inverse >> fp.RECIPROCAL_BITS - fp.DIRECTION_BITS
        return self._use.choose(is_short, otherwise, found)

    # --------------------------------------------------------------------------------------------------------- objects

    def _nearest(self, origin: PathArray, direction: PathArray) -> tuple[PathArray, PathArray]:
        """Return the distance of the first object on each ray, `NOTHING` without any, and the object's number."""
        use = self._use
        inverse = (1 << fp.SLAB_BITS) // _not_level(use, direction) if self._has_boxes else None
        best = origin[0] * 0 + NOTHING
        which = origin[0] * 0
        for number, tests in enumerate(self._shapes):
            places, distance = tests.hits(origin, direction, inverse)
            if places is None:
                closer = distance < best
                best, which = use.choose(closer, distance, best), use.choose(closer, number, which)
                continue
            closer = use.where(distance < use.at(best, places))
            places = use.at(places, closer)
            best[places] = use.at(distance, closer)
            which[places] = number
        return best, which

    def _normals(self, which: PathArray, paths: MovingPaths, place: PathArray) -> PathArray:
        """Return the direction away from each surface, on the side of the arriving ray."""
        normal = place * 0
        for number, tests in enumerate(self._shapes):
            here = self._use.where(which == number)
            if len(here):
                rays = [self._use.at(values, here) for values in (paths.origin, paths.direction, place)]
                normal[:, here] = self._normal(tests, *rays)
        return normal

    def _normal(self, tests: "_ShapeTests", origin: PathArray, direction: PathArray, place: PathArray) -> PathArray:
        use, shape = self._use, tests.shape
        if isinstance(shape, BoxShape):
            return tests.box_normal(origin, direction)
        if isinstance(shape, PlaneShape):
            normal = direction * 0 + tests.vector
        else:
            normal = self._scaled(place - tests.vector << fp.NORMAL_BITS, direction)
        return use.choose(_dot(normal, direction) > 0, -normal, normal)

    # ----------------------------------------------------------------------------------------------------------- light

    def _see(self, seen: PathArray, paths: MovingPaths, light: PathArray) -> None:
        """Add each path's share of a light."""
        seen[:, paths.number] += paths.share * light >> fp.LIGHT_BITS

    def _sky(self, direction: PathArray) -> PathArray:
        up = self._clamped(direction[1], 0, fp.ONE)
        return self._horizon + ((self._zenith - self._horizon) * up >> fp.DIRECTION_BITS)

    def _clamped(self, values: PathArray, low: int, high: int) -> PathArray:
        return self._use.choose(values < low, low, self._use.choose(values > high, high, values))

    def _shine(self, seen: PathArray, paths: MovingPaths, normal: PathArray, bounce: int) -> None:
        """Add the sun's light where no object is between."""
        use, (centre, sunlight) = self._use, self._sun or ((), ())
        jitter = self._anywhere(fp.drawn(paths.key, 2 * bounce + 2)) >> fp.SUN_SHIFT
        towards = self._scaled(centre + jitter << fp.SCALED_BITS, normal * 0 + centre)
        steep = _dot(towards, normal) >> fp.DIRECTION_BITS
        facing = use.where(steep > 0)
        paths, towards, steep = paths.some(use, facing), use.at(towards, facing), use.at(steep, facing)
        distance, _ = self._nearest(paths.origin, towards)
        lit = use.where(distance == NOTHING)
        self._see(seen, paths.some(use, lit), use.at(steep, lit) * sunlight >> fp.DIRECTION_BITS)


class _ShapeTests:
    """The intersections of rays with one shape on one backend."""

    def __init__(self, use: ArrayArithmetic, thing: SceneObject) -> None:
        self._use, self.shape = use, thing.shape
        if isinstance(self.shape, BoxShape):
            self._low, self._high = _columns(use, [self.shape.low]), _columns(use, [self.shape.high])
        else:
            of = self.shape
            self.vector = _columns(use, [of.centre if isinstance(of, SphereShape) else of.normal])

    def hits(self, origin: PathArray, direction: PathArray, inverse: PathArray) -> tuple[PathArray | None, PathArray]:
        """Return the places of rays that may hit, or None for all, and their distances, `NOTHING` for a miss."""
        shape = self.shape
        if isinstance(shape, SphereShape):
            return self._sphere_hits(shape, origin, direction)
        if isinstance(shape, PlaneShape):
            return None, self._to_plane(shape, origin, direction)
        enter, leave = self._slabs(origin, inverse)
        near, far = _greatest(self._use, enter), _least(self._use, leave)
        return None, self._use.choose(near <= far, self._distance(near, far), NOTHING)

    def box_normal(self, origin: PathArray, direction: PathArray) -> PathArray:
        """Return the normal against the ray along the axis of the side that it meets."""
        use = self._use
        enter, leave = self._slabs(origin, (1 << fp.SLAB_BITS) // _not_level(use, direction))
        near, far = _greatest(use, enter), _least(use, leave)
        is_side = use.choose(near > fp.NEAREST, enter == near, leave == far)
        # Where two sides meet, the first axis counts, as in the reference.
        is_side[1] &= ~is_side[0]
        is_side[2] &= ~(is_side[0] | is_side[1])
        return use.choose(is_side, use.choose(direction >= 0, direction * 0 - fp.ONE, fp.ONE), 0)

    def _sphere_hits(self, shape: SphereShape, origin: PathArray, direction: PathArray) -> tuple[PathArray, PathArray]:
        use = self._use
        apart = origin - self.vector
        along = -_dot(apart, direction) >> fp.DIRECTION_BITS
        aside = apart + (along * direction >> fp.DIRECTION_BITS)
        square = shape.radius * shape.radius - _dot(aside, aside)
        places = use.where(square >= 0)
        along, half = use.at(along, places), use.root(use.at(square, places))
        return places, self._distance(along - half, along + half)

    def _to_plane(self, shape: PlaneShape, origin: PathArray, direction: PathArray) -> PathArray:
        slope = _dot(self.vector, direction) >> fp.DIRECTION_BITS
        is_level = slope == 0
        distance = (shape.height - _dot(self.vector, origin)) // self._use.choose(is_level, 1, slope)
        distance = self._use.choose(is_level, NOTHING, distance)
        return self._distance(distance, distance)

    def _slabs(self, origin: PathArray, inverse: PathArray) -> tuple[PathArray, PathArray]:
        first = (self._low - origin) * inverse >> fp.DIRECTION_BITS
        second = (self._high - origin) * inverse >> fp.DIRECTION_BITS
        return self._use.lesser(first, second), self._use.greater(first, second)

    def _distance(self, near: PathArray, far: PathArray) -> PathArray:
        """Return the nearer of two hits that is not at the ray's start, or `NOTHING` if it is too far."""
        distance = self._use.choose(near > fp.NEAREST, near, far)
        return self._use.choose((distance > fp.NEAREST) & (distance < fp.FARTHEST), distance, NOTHING)


def _columns(use: ArrayArithmetic, vectors: Sequence[tuple[int, int, int]]) -> PathArray:
    """Return the vectors as int64[3, n]."""
    return use.put([list(axis) for axis in zip(*vectors, strict=True)])


def _dot(left: PathArray, right: PathArray) -> PathArray:
    products = left * right
    return products[0] + products[1] + products[2]


def _greatest(use: ArrayArithmetic, vectors: PathArray) -> PathArray:
    return use.greater(use.greater(vectors[0], vectors[1]), vectors[2])


def _least(use: ArrayArithmetic, vectors: PathArray) -> PathArray:
    return use.lesser(use.lesser(vectors[0], vectors[1]), vectors[2])


def _not_level(use: ArrayArithmetic, direction: PathArray) -> PathArray:
    """Return the coordinates of a direction, kept away from 0."""
    least = direction * 0 + fp.SLAB_LEAST
    return use.choose(direction >= 0, use.greater(direction, least), use.lesser(direction, -least))
