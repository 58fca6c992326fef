"""The hardest products have the claimed sums, and the check finds a backend that rounds."""

import numpy as np
import pytest

from benchmarks.gpu.exactness import products, wrong_batches, wrong_products
from gpu_tasks.workloads.integer_arrays import BackendArray
from gpu_tasks.workloads.integer_transformer.numpy_backend import COLUMNS_A_PRODUCT, LIMB, FloatBackend

pytestmark = pytest.mark.nightly


class ShortSums(FloatBackend):
    """The largest sums lose their last bit, as with one bit too few in the accumulator."""

    def product(self, scaled: BackendArray, operand: BackendArray) -> BackendArray:
        sums = super().product(scaled, operand)
        return np.where(np.abs(sums) >= 1 << 28, np.floor(sums / 2) * 2, sums)


class ShortMixes(FloatBackend):
    """As `ShortSums`, for a mix."""

    def mix(self, shares: BackendArray, operand: BackendArray) -> BackendArray:
        sums = super().mix(shares, operand)
        return np.where(np.abs(sums) >= 1 << 28, np.floor(sums / 2) * 2, sums)


def test_the_largest_sums_come_close_to_the_limit_of_float32() -> None:
    whole = [
        case for case in products() if case.label.startswith("weights") and case.left.shape[-1] == COLUMNS_A_PRODUCT
    ]
    for case in whole:
        high_limbs = np.floor(case.left / LIMB + 0.5)
        assert 0.97 * (1 << 24) < np.abs(high_limbs @ case.right.T).max() < 1 << 24, case.label


def test_numpy_is_exact() -> None:
    assert list(wrong_products(FloatBackend())) == []


@pytest.mark.parametrize(("backend", "kind"), [(ShortMixes, "shares"), (ShortSums, "weights")])
def test_a_backend_that_rounds_is_seen(backend: type[FloatBackend], kind: str) -> None:
    assert any(label.startswith(kind) for label in wrong_products(backend()))


def test_batches_of_a_backend_that_rounds_differ() -> None:
    class Rounding(FloatBackend):
        def product(self, scaled: BackendArray, operand: BackendArray) -> BackendArray:
            return np.floor(super().product(scaled, operand) / 256) * 256

    assert wrong_batches(FloatBackend(), FloatBackend(), [2]) == []
    assert wrong_batches(Rounding(), FloatBackend(), [2])
