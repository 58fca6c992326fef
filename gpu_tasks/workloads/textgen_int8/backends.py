"""The backends by name, and the backend that every provider and checker has: NumPy, with float32 products by BLAS.

Sums of products stay below 2**24, because `model.py` refuses shapes that could exceed it. float32 holds every integer
up to there, so each partial sum is exact in any order.
"""

import numpy as np

from gpu_tasks.workloads.backend_choice import ByDevice, chosen
from gpu_tasks.workloads.textgen_int8.integer_ops import Arithmetic, Array, Reference


class NumpyBackend(Reference):
    """The reference, with its two slow operations in floats that are exact."""

    name = "numpy"

    def operand(self, values: Array) -> Array:
        """Return float32 in contiguous rows, which BLAS reads fastest."""
        return np.ascontiguousarray(values, dtype=np.float32)

    def product(self, left: Array, right: Array) -> Array:
        """Return the products, computed in float32 and exact below 2**24."""
        return np.matmul(left.astype(np.float32), right.swapaxes(-1, -2)).astype(np.int64)

    def root(self, squares: Array) -> Array:
        """Return the truncated IEEE root, exact for values below 2**52.

        For n up to 2**26 the root of n * n - 1 lies more than half an ulp below n, so it never rounds up to n.
        """
        roots: Array = np.sqrt(squares.astype(np.float64)).astype(np.int64)
        return roots


def arithmetic(backend_name: str) -> Arithmetic:
    """Return the backend `numpy`, `reference`, or `torch-` with a device.

    Raise LookupError for another name or an unusable device, and ImportError without PyTorch.
    """
    return chosen(backend_name, NumpyBackend, Reference, _torch)


def _torch() -> ByDevice[Arithmetic]:
    from gpu_tasks.workloads.torch_backends import TorchBackend  # noqa: PLC0415 (optional)

    return TorchBackend
