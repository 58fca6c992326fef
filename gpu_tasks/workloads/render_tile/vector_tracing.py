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

    def some(self, backend: ArrayArithmetic, places: PathArray) -> "MovingPaths":
        """Return the paths at the places."""
        return MovingPaths(
            backend.at(self.number, places),
            backend.at(self.key, places),
            backend.at(self.share, places),
            backend.at(self.origin, places),
            backend.at(self.direction, places),
        )


class VectorTracer:
    """One scene on one backend."""

    def __init__(self, backend: ArrayArithmetic, scene: RenderScene) -> None:
        """Put the tables into arrays of the backend, a column for each object."""
        self._backend, self._scene = backend, scene
        self._sines = backend.put(SINES)
        self._kinds = backend.put([scene_object.surface.kind for scene_object in scene.objects])
        self._colours = _columns(backend, [scene_object.surface.colour for scene_object in scene.objects])
        self._others = _columns(backend, [scene_object.surface.other for scene_object in scene.objects])
        self._shapes = [_ShapeTests(backend, scene_object) for scene_object in scene.objects]
        self._has_boxes = any(isinstance(scene_object.shape, BoxShape) for scene_object in scene.objects)
        camera, sky, sun = scene.camera, scene.sky, scene.sun
        self._eye, self._right, self._up, self._forward = (
            _columns(backend, [vector]) for vector in (camera.eye, camera.right, camera.up, camera.forward)
        )
        self._zenith, self._horizon = _columns(backend, [sky.zenith]), _columns(backend, [sky.horizon])
        self._sun = None if sun is None else (_columns(backend, [sun.direction]), _columns(backend, [sun.light]))

    def sums(self, columns: Int64Array, rows: Int64Array) -> Int64Array:
        """Return int64[n, 3]: red, green and blue, summed over all paths of each pixel, in units of 2**-16."""
        batch_sums = [self._batch_sums(columns[batch], rows[batch]) for batch in self._batches(len(columns))]
        return np.concatenate([np.zeros((0, 3), dtype=np.int64), *batch_sums])

    def _batches(self, pixel_count: int) -> Iterator[slice]:
        """Return the pixels to follow at once, by the number of their paths."""
        batch_pixels = max(1, self._backend.paths // self._scene.samples)
        return (slice(start, start + batch_pixels) for start in range(0, pixel_count, batch_pixels))

    def _batch_sums(self, columns: Int64Array, rows: Int64Array) -> Int64Array:
        samples = self._scene.samples
        numbers = np.tile(np.arange(samples), len(columns))
        column, row = (self._backend.put(np.repeat(values, samples)) for values in (columns, rows))
        pixel_key = fp.absorbed(fp.absorbed(fp.mixed(self._scene.seed), row), column)
        collected_light = self._collected_light(column, row, fp.absorbed(pixel_key, self._backend.put(numbers)))
        return self._backend.take(collected_light.reshape(3, len(columns), samples).sum(-1)).T

    def _collected_light(self, column: PathArray, row: PathArray, key: PathArray) -> PathArray:
        """Return the light along each path."""
        collected_light, paths = key * self._backend.put([[0]] * 3), self._from_the_eye(column, row, key)
        for bounce in range(self._scene.bounces):
            if not len(paths.number):
                break
            paths = self._follow_to_surface(collected_light, paths, bounce)
        return collected_light

    # ------------------------------------------------------------------------------------------------------------ rays

    def _from_the_eye(self, column: PathArray, row: PathArray, key: PathArray) -> MovingPaths:
        scene, chance = self._scene, fp.drawn(key, 0)
        across = (2 * ((column << 16) + (chance & 0xFFFF)) - (scene.width << 16) << 4) // scene.height
        down = (2 * ((row << 16) + (chance >> 16)) - (scene.height << 16) << 4) // scene.height
        ahead = scene.camera.zoom << 4
        view = across * self._right - down * self._up + ahead * self._forward >> fp.DIRECTION_BITS
        nothing = view * 0
        number = self._backend.put(np.arange(len(key)))
        return MovingPaths(
            number, key, nothing + fp.WHITE, nothing + self._eye, self._scaled(view, nothing + self._forward)
        )

    def _follow_to_surface(self, collected_light: PathArray, paths: MovingPaths, bounce: int) -> MovingPaths:
        """Return the paths that continue from the surfaces that they meet. Add the light there to `collected_light`."""
        backend = self._backend
        distance, object_numbers = self._nearest(paths.origin, paths.direction)
        hit_point = paths.origin + (distance * paths.direction >> fp.DIRECTION_BITS)
        farthest_coordinate = _greatest(backend, backend.greater(hit_point, -hit_point))
        is_hit = (distance < NOTHING) & (farthest_coordinate <= fp.HIT_MAX)
        missed_paths, hit_paths = backend.where(~is_hit), backend.where(is_hit)
        self._add_light(
            collected_light,
            paths.some(backend, missed_paths),
            self._sky_light(backend.at(paths.direction, missed_paths)),
        )
        paths = paths.some(backend, hit_paths)
        object_numbers = backend.at(object_numbers, hit_paths)
        hit_point = backend.at(hit_point, hit_paths)
        is_light = backend.at(self._kinds, object_numbers) == int(SurfaceKind.LIGHT)
        light_paths, reflected_paths = backend.where(is_light), backend.where(~is_light)
        self._add_light(
            collected_light,
            paths.some(backend, light_paths),
            backend.at(self._colours, backend.at(object_numbers, light_paths)),
        )
        paths = paths.some(backend, reflected_paths)
        object_numbers = backend.at(object_numbers, reflected_paths)
        hit_point = backend.at(hit_point, reflected_paths)
        return self._reflect(collected_light, paths, object_numbers, hit_point, bounce)

    def _reflect(
        self,
        collected_light: PathArray,
        paths: MovingPaths,
        object_numbers: PathArray,
        hit_point: PathArray,
        bounce: int,
    ) -> MovingPaths:
        """Return the paths from reflecting surfaces, with their share."""
        backend = self._backend
        surface_kinds, normal = backend.at(self._kinds, object_numbers), self._normals(object_numbers, paths, hit_point)
        is_odd = ((hit_point[0] >> fp.PLACE_BITS) + (hit_point[2] >> fp.PLACE_BITS) & 1) == 1
        colour = backend.choose(
            is_odd, backend.at(self._others, object_numbers), backend.at(self._colours, object_numbers)
        )
        paths.share = paths.share * colour >> fp.LIGHT_BITS
        paths.origin = hit_point + (normal >> fp.LIFT_SHIFT)
        is_mirror = surface_kinds == int(SurfaceKind.MIRROR)
        matte_paths, mirror_paths = backend.where(~is_mirror), backend.where(is_mirror)
        if self._sun is not None:
            self._add_sunlight(
                collected_light, paths.some(backend, matte_paths), backend.at(normal, matte_paths), bounce
            )
        if bounce + 1 < self._scene.bounces:
            paths.direction[:, mirror_paths] = self._mirror(
                backend.at(paths.direction, mirror_paths), backend.at(normal, mirror_paths)
            )
            chance = fp.drawn(backend.at(paths.key, matte_paths), 2 * bounce + 1)
            paths.direction[:, matte_paths] = self._scatter(backend.at(normal, matte_paths), chance)
        return paths

    def _mirror(self, direction: PathArray, normal: PathArray) -> PathArray:
        twice = 2 * _dot(direction, normal) >> fp.DIRECTION_BITS
        return self._scaled(direction - (twice * normal >> fp.DIRECTION_BITS) << fp.SCALED_BITS, normal)

    def _scatter(self, normal: PathArray, chance: PathArray) -> PathArray:
        return self._scaled(normal + self._any_direction(chance) << fp.SCALED_BITS, normal)

    def _any_direction(self, chance: PathArray) -> PathArray:
        """Return a direction for each, uniformly distributed."""
        height = 2 * (chance >> 12) - fp.ONE + 1
        around = self._backend.root((1 << 2 * fp.DIRECTION_BITS) - height * height)
        angle = chance & fp.ANGLES - 1
        directions = height * self._backend.put([[0], [1], [0]])
        cosine = self._backend.at(self._sines, angle + fp.ANGLES // 4 & fp.ANGLES - 1)
        directions[0] = around * cosine >> fp.DIRECTION_BITS
        directions[2] = around * self._backend.at(self._sines, angle) >> fp.DIRECTION_BITS
        return directions

    def _scaled(self, vectors: PathArray, otherwise: PathArray) -> PathArray:
        root = self._backend.root(_dot(vectors, vectors))
        is_short = root < fp.SHORTEST_ROOT
        inverse = (1 << fp.RECIPROCAL_BITS) // self._backend.choose(is_short, fp.SHORTEST_ROOT, root)
        scaled = vectors * inverse >> fp.RECIPROCAL_BITS - fp.DIRECTION_BITS
        return self._backend.choose(is_short, otherwise, scaled)

    # --------------------------------------------------------------------------------------------------------- objects

    def _nearest(self, origin: PathArray, direction: PathArray) -> tuple[PathArray, PathArray]:
        """Return the distance of the first object on each ray, `NOTHING` without any, and the object's number."""
        backend = self._backend
        inverse = (1 << fp.SLAB_BITS) // _not_level(backend, direction) if self._has_boxes else None
        best_distance = origin[0] * 0 + NOTHING
        object_numbers = origin[0] * 0
        for object_number, shape_tests in enumerate(self._shapes):
            places, distance = shape_tests.hits(origin, direction, inverse)
            if places is None:
                closer_paths = distance < best_distance
                best_distance = backend.choose(closer_paths, distance, best_distance)
                object_numbers = backend.choose(closer_paths, object_number, object_numbers)
                continue
            closer_paths = backend.where(distance < backend.at(best_distance, places))
            places = backend.at(places, closer_paths)
            best_distance[places] = backend.at(distance, closer_paths)
            object_numbers[places] = object_number
        return best_distance, object_numbers

    def _normals(self, object_numbers: PathArray, paths: MovingPaths, hit_point: PathArray) -> PathArray:
        """Return the direction away from each surface, on the side of the arriving ray."""
        normal = hit_point * 0
        for object_number, shape_tests in enumerate(self._shapes):
            paths_here = self._backend.where(object_numbers == object_number)
            if len(paths_here):
                rays = [self._backend.at(values, paths_here) for values in (paths.origin, paths.direction, hit_point)]
                normal[:, paths_here] = self._normal(shape_tests, *rays)
        return normal

    def _normal(
        self, shape_tests: "_ShapeTests", origin: PathArray, direction: PathArray, hit_point: PathArray
    ) -> PathArray:
        backend, shape = self._backend, shape_tests.shape
        if isinstance(shape, BoxShape):
            return shape_tests.box_normal(origin, direction)
        if isinstance(shape, PlaneShape):
            normal = direction * 0 + shape_tests.vector
        else:
            normal = self._scaled(hit_point - shape_tests.vector << fp.NORMAL_BITS, direction)
        return backend.choose(_dot(normal, direction) > 0, -normal, normal)

    # ----------------------------------------------------------------------------------------------------------- light

    def _add_light(self, collected_light: PathArray, paths: MovingPaths, added_light: PathArray) -> None:
        """Add each path's share of a light."""
        collected_light[:, paths.number] += paths.share * added_light >> fp.LIGHT_BITS

    def _sky_light(self, direction: PathArray) -> PathArray:
        up = self._clamped(direction[1], 0, fp.ONE)
        return self._horizon + ((self._zenith - self._horizon) * up >> fp.DIRECTION_BITS)

    def _clamped(self, values: PathArray, low: int, high: int) -> PathArray:
        return self._backend.choose(values < low, low, self._backend.choose(values > high, high, values))

    def _add_sunlight(self, collected_light: PathArray, paths: MovingPaths, normal: PathArray, bounce: int) -> None:
        """Add the sun's light where no object is between."""
        backend, (centre, sunlight) = self._backend, self._sun or ((), ())
        jitter = self._any_direction(fp.drawn(paths.key, 2 * bounce + 2)) >> fp.SUN_SHIFT
        towards = self._scaled(centre + jitter << fp.SCALED_BITS, normal * 0 + centre)
        steep = _dot(towards, normal) >> fp.DIRECTION_BITS
        facing_paths = backend.where(steep > 0)
        paths = paths.some(backend, facing_paths)
        towards = backend.at(towards, facing_paths)
        steep = backend.at(steep, facing_paths)
        distance, _ = self._nearest(paths.origin, towards)
        lit_paths = backend.where(distance == NOTHING)
        self._add_light(
            collected_light,
            paths.some(backend, lit_paths),
            backend.at(steep, lit_paths) * sunlight >> fp.DIRECTION_BITS,
        )


class _ShapeTests:
    """The intersections of rays with one shape on one backend."""

    def __init__(self, backend: ArrayArithmetic, scene_object: SceneObject) -> None:
        self._backend, self.shape = backend, scene_object.shape
        if isinstance(self.shape, BoxShape):
            self._low, self._high = _columns(backend, [self.shape.low]), _columns(backend, [self.shape.high])
        else:
            shape = self.shape
            self.vector = _columns(backend, [shape.centre if isinstance(shape, SphereShape) else shape.normal])

    def hits(self, origin: PathArray, direction: PathArray, inverse: PathArray) -> tuple[PathArray | None, PathArray]:
        """Return the places of rays that may hit, or None for all, and their distances, `NOTHING` for a miss."""
        shape = self.shape
        if isinstance(shape, SphereShape):
            return self._sphere_hits(shape, origin, direction)
        if isinstance(shape, PlaneShape):
            return None, self._to_plane(shape, origin, direction)
        enter, leave = self._slabs(origin, inverse)
        near, far = _greatest(self._backend, enter), _least(self._backend, leave)
        return None, self._backend.choose(near <= far, self._distance(near, far), NOTHING)

    def box_normal(self, origin: PathArray, direction: PathArray) -> PathArray:
        """Return the normal against the ray along the axis of the side that it meets."""
        backend = self._backend
        enter, leave = self._slabs(origin, (1 << fp.SLAB_BITS) // _not_level(backend, direction))
        near, far = _greatest(backend, enter), _least(backend, leave)
        is_side = backend.choose(near > fp.NEAREST, enter == near, leave == far)
        # Where two sides meet, the first axis counts, as in the reference.
        is_side[1] &= ~is_side[0]
        is_side[2] &= ~(is_side[0] | is_side[1])
        return backend.choose(is_side, backend.choose(direction >= 0, direction * 0 - fp.ONE, fp.ONE), 0)

    def _sphere_hits(self, shape: SphereShape, origin: PathArray, direction: PathArray) -> tuple[PathArray, PathArray]:
        backend = self._backend
        apart = origin - self.vector
        along = -_dot(apart, direction) >> fp.DIRECTION_BITS
        aside = apart + (along * direction >> fp.DIRECTION_BITS)
        half_squared = shape.radius * shape.radius - _dot(aside, aside)
        near_paths = backend.where(half_squared >= 0)
        along, half_chord = backend.at(along, near_paths), backend.root(backend.at(half_squared, near_paths))
        return near_paths, self._distance(along - half_chord, along + half_chord)

    def _to_plane(self, shape: PlaneShape, origin: PathArray, direction: PathArray) -> PathArray:
        slope = _dot(self.vector, direction) >> fp.DIRECTION_BITS
        is_level = slope == 0
        distance = (shape.height - _dot(self.vector, origin)) // self._backend.choose(is_level, 1, slope)
        distance = self._backend.choose(is_level, NOTHING, distance)
        return self._distance(distance, distance)

    def _slabs(self, origin: PathArray, inverse: PathArray) -> tuple[PathArray, PathArray]:
        first = (self._low - origin) * inverse >> fp.DIRECTION_BITS
        second = (self._high - origin) * inverse >> fp.DIRECTION_BITS
        return self._backend.lesser(first, second), self._backend.greater(first, second)

    def _distance(self, near: PathArray, far: PathArray) -> PathArray:
        """Return the nearer of two hits that is not at the ray's start, or `NOTHING` if it is too far."""
        distance = self._backend.choose(near > fp.NEAREST, near, far)
        return self._backend.choose((distance > fp.NEAREST) & (distance < fp.FARTHEST), distance, NOTHING)


def _columns(backend: ArrayArithmetic, vectors: Sequence[tuple[int, int, int]]) -> PathArray:
    """Return the vectors as int64[3, n]."""
    return backend.put([list(axis) for axis in zip(*vectors, strict=True)])


def _dot(left: PathArray, right: PathArray) -> PathArray:
    products = left * right
    return products[0] + products[1] + products[2]


def _greatest(backend: ArrayArithmetic, vectors: PathArray) -> PathArray:
    return backend.greater(backend.greater(vectors[0], vectors[1]), vectors[2])


def _least(backend: ArrayArithmetic, vectors: PathArray) -> PathArray:
    return backend.lesser(backend.lesser(vectors[0], vectors[1]), vectors[2])


def _not_level(backend: ArrayArithmetic, direction: PathArray) -> PathArray:
    """Return the coordinates of a direction, kept away from 0."""
    least = direction * 0 + fp.SLAB_LEAST
    return backend.choose(direction >= 0, backend.greater(direction, least), backend.lesser(direction, -least))
