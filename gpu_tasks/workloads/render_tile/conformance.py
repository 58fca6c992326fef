"""Vectors: fixed work with published hashes. A backend that differs in one must not serve.

They cover roots around perfect squares, where a float is off by one, and quotients of negative numbers. They also cover
a scene with every feature, a scene with numbers at their limits, and the bytes of a tile.
"""

from hashlib import blake2b

import numpy as np

from gpu_tasks.workloads.render_tile.backends import TileBackend, shown
from gpu_tasks.workloads.render_tile.scene import RenderScene
from gpu_tasks.workloads.render_tile.scene_text import read_text
from gpu_tasks.workloads.workload import NonConformingBackendError

HASHES = {
    "roots": "b24d5c0bc1c271d284d1094dba212478fdb4dc65ec347c76f39e7046112eb982",
    "quotients": "288ee199afe5ea5c3d91d497835f6d49ec6beabb809bb964c84c74b8ea77340f",
    "everything": "161523a1a978baba12188c58bb4e3d39cf55c2a8518fb2763060289455108926",
    "limits": "3df8008a0bd44ba4369c260b5583c39375af9c248a6e2a75fefd09dd50b8d86e",
    "dark": "9eebcb2a1c8b0c67e9aeaecdc350a1d0abde4f6f7b1687ec9c58d7f87880d9ea",
    "bytes": "9ff85d425326a4cd87713272289bda75f673d9302e666d9bd8c2593c2f477b2b",
}
EVERYTHING = """
picture 24 16; samples 4; bounces 5; seed 11
camera 0.2 1.4 -5  0 0.8 0  1.4; sky #6fa0e0 #e8eef6 0.8; sun 0.4 0.8 -0.5 #fff0d8 2
plane 0 0 0  0 1 0  checked #e8e8e8 #303848
plane 0 0 6  0.1 -0.05 -1  matte #a0b0c0
sphere -1.2 1 0  1  mirror #f0f0f0
sphere 0.6 0.5 -1.2  0.5  matte #c04030
box 0.8 0 -0.2  1.8 1.1 0.9  matte #40a060
box -0.5 0 -1.9  -0.1 0.4 -1.5  mirror #ffe0a0
sphere 0.2 2.6 0.4  0.6  light #ffd090 4
"""
LIMITS = """
picture 16 1; samples 8; bounces 8; seed 4294967295
camera 500 499.9 -500  -500 -499.999 500  0.25; sky #ffffff #000000 100; sun -500 0.001 500 #ffffff 100
plane 0 -500 0  0.001 500 0.002  mirror #ffffff
plane 500 500 500  -500 0 0.001  checked #ffffff #000000
sphere -500 -500 500  500  matte #ffffff
sphere 499 498 -499  0.016  mirror #ffffff
sphere 0 0 0  499.999  matte #fefefe
box -500 -500 -500  500 -499.999 500  mirror #ffffff
box 499.99 -500 -500  500 500 500  matte #ffffff
sphere -500 500 -500  0.016  light #ffffff 100
"""
DARK = """
picture 9 16; samples 5; bounces 8; seed 0
camera 0 0 -1.9  0 0 0  1; sky #000000 #000000 0
box -2 -2 -2  2 2 2  matte #b0b0b0
box -0.6 -2 -0.6  0.6 -0.4 0.6  mirror #e0e0ff
box -0.8 1.9 -0.8  0.8 1.99 0.8  light #ffffff 8
sphere 1.1 -1.2 0.4  0.8  matte #ff8040
"""


def roots_hash(backend: TileBackend) -> str:
    """Return the hash of the roots of squares and of their neighbours."""
    # A float root is wrong just beside a square, if anywhere.
    near = [root * root + offset for root in range(1, (1 << 31) - 1, 1_999_993) for offset in (-1, 0, 1)]
    return _hash_of_numbers(backend.roots([0, *near, (1 << 62) - 1]))


def quotients_hash(backend: TileBackend) -> str:
    """Return the hash of quotients of numbers on both sides of 0."""
    values = [value * (1 << 40) + value for value in range(-9, 10)]
    pairs = [(value, divisor) for value in values for divisor in (-1_048_832, -7, -1, 1, 3, 1_048_832)]
    return _hash_of_numbers(backend.quotients([value for value, _ in pairs], [divisor for _, divisor in pairs]))


def light_of_all(backend: TileBackend, scene: RenderScene) -> list[list[int]]:
    """Return the light of every pixel, row by row."""
    rows, columns = np.divmod(np.arange(scene.width * scene.height), scene.width)
    return [[int(channel) for channel in pixel] for pixel in backend.tracer(scene).sums(columns, rows)]


def check(backend: TileBackend) -> bytes:
    """Return 32 bytes over all vectors. Raise NonConformingBackendError, which names the first wrong one."""
    try:
        hashes = all_hashes(backend)
    except (IndexError, OverflowError, ValueError) as error:  # values outside a table's or a byte's range
        raise NonConformingBackendError(f"render-tile: {backend.name}: {error}") from error
    for name, computed in hashes.items():
        if computed != HASHES[name]:
            raise NonConformingBackendError(f"render-tile: {backend.name}: {name} differs from its vector: {computed}")
    return blake2b("".join(hashes.values()).encode(), digest_size=32).digest()


def all_hashes(backend: TileBackend) -> dict[str, str]:
    """Return each vector as this backend computes it, to be published in `HASHES` when the computation changes."""
    texts = {"everything": EVERYTHING, "limits": LIMITS, "dark": DARK}
    light_by_scene = {name: light_of_all(backend, read_text(text).scene) for name, text in texts.items()}
    return {
        "roots": roots_hash(backend),
        "quotients": quotients_hash(backend),
        **{
            name: _hash_of_numbers([channel for pixel in pixels for channel in pixel])
            for name, pixels in light_by_scene.items()
        },
        "bytes": blake2b(shown(np.array(light_by_scene["everything"]), 4), digest_size=32).hexdigest(),
    }


def _hash_of_numbers(numbers: list[int]) -> str:
    encoded = b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)
    return blake2b(encoded, digest_size=32).hexdigest()
