"""Backends that are wrong in one bit on purpose: a comparison that passes them is worthless.

Invariant: no name of a real backend opens one, and only `make conformance` uses them.
"""

from dataclasses import replace

import numpy as np

from gpu_tasks.workloads.integer_arrays import BackendArray
from gpu_tasks.workloads.integer_transformer.numpy_backend import FloatBackend
from gpu_tasks.workloads.matmul_hash.service import numpy_chain
from gpu_tasks.workloads.render_tile.array_arithmetic import NumpyArrays
from gpu_tasks.workloads.render_tile.backends import VectorBackend
from gpu_tasks.workloads.render_tile.scene import RenderScene
from gpu_tasks.workloads.render_tile.vector_tracing import VectorTracer
from gpu_tasks.workloads.train_int8.arithmetic import Tensor
from gpu_tasks.workloads.train_int8.backends import FloatArithmetic
from gpu_tasks.workloads.train_int8.training_step import WEIGHT_LIMIT

PLANTED = "planted"
WRONG_AT = 4
"""The index of the changed weight matrix among the written ones, counted from 1: within the first two steps of any run.
"""
PLANTED_SUM = 1 << 20
"""The wrong bit of a sum."""


class PlantedTraining(FloatArithmetic):
    """Flips one bit of one weight in one step."""

    name = PLANTED

    def __init__(self) -> None:
        self._written = 0

    def clamp(self, values: Tensor, low: int, high: int) -> Tensor:
        """Clamp, and flip the bit. Only weights are clamped to WEIGHT_LIMIT."""
        held = np.array(super().clamp(values, low, high))
        if high == WEIGHT_LIMIT:
            self._written += 1
            if self._written == WRONG_AT:
                held[0, 0] ^= 1
        return held


class PlantedTransformer(FloatBackend):
    """Flips one bit of one sum in the first computed product."""

    name = PLANTED

    def __init__(self) -> None:
        self._is_planted = False

    def product(self, scaled: BackendArray, operand: BackendArray) -> BackendArray:
        """Return the right product, except for that bit, which no later rounding hides."""
        sums = super().product(scaled, operand)
        if not self._is_planted:
            # By its place: a flat view of sums in another order would be a copy.
            sums[(0,) * sums.ndim] += PLANTED_SUM
            self._is_planted = True
        return sums


def planted_chain(drawn: bytes, size: int, rounds: int) -> bytes:
    """Compute the chain with one bit of D flipped."""
    return numpy_chain(drawn[:-4] + bytes([drawn[-4] ^ 1]) + drawn[-3:], size, rounds)


class PlantedTiles(VectorBackend):
    """Flips one bit of a scene's seed."""

    def __init__(self) -> None:
        super().__init__(NumpyArrays())
        self.name = PLANTED

    def tracer(self, scene: RenderScene) -> VectorTracer:
        """Return the tracer of the scene with another seed."""
        return super().tracer(replace(scene, seed=scene.seed ^ 1))
