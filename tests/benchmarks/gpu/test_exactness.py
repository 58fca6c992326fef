"""The hardest products have the claimed sums, and the check finds a backend that rounds."""

import numpy as np
import pytest

from benchmarks.gpu.exactness import EXACT_BELOW, products, wrong_batches, wrong_products
from gpu_tasks.workloads.textgen_int8.backends import NumpyBackend
from gpu_tasks.workloads.textgen_int8.integer_ops import Array, Ints

pytestmark = pytest.mark.nightly


class Narrow(NumpyBackend):
    """Operands rounded to the 11 bits of TF32."""

    def product(self, left: Array, right: Array) -> Array:
        return super().product(self._cut(left), self._cut(right))

    @staticmethod
    def _cut(values: Array) -> Array:
        bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
        return ((bits + np.uint32(1 << 12)) >> np.uint32(13) << np.uint32(13)).view(np.float32)


class ShortSums(NumpyBackend):
    """The largest sums lose their last bit, as with one bit too few in the accumulator."""

    def product(self, left: Array, right: Array) -> Array:
        sums: Ints = super().product(left, right)
        return np.where(np.abs(sums) >= EXACT_BELOW >> 1, sums & ~1, sums)


def test_every_sum_of_absolute_products_is_below_what_float32_counts_to_and_the_greatest_come_close() -> None:
    greatest = 0.0
    for case in products():
        sums = np.abs(case.left).astype(np.float64) @ np.abs(case.right).swapaxes(-1, -2).astype(np.float64)
        assert sums.max() < EXACT_BELOW, case.label
        reached = np.abs(case.left.astype(np.float64) @ case.right.swapaxes(-1, -2).astype(np.float64)).max()
        greatest = max(greatest, float(reached))
    assert greatest > 0.97 * EXACT_BELOW


def test_numpy_is_exact() -> None:
    assert list(wrong_products(NumpyBackend())) == []


@pytest.mark.parametrize(("backend", "kind"), [(Narrow, "shares"), (ShortSums, "weights")])
def test_a_backend_that_rounds_is_seen(backend: type[NumpyBackend], kind: str) -> None:
    assert any(label.startswith(kind) for label in wrong_products(backend()))


def test_batches_of_a_backend_that_rounds_differ() -> None:
    assert wrong_batches(NumpyBackend(), NumpyBackend(), [2]) == []
    assert wrong_batches(Narrow(), NumpyBackend(), [2])
