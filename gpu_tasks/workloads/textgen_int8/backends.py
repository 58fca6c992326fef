"""Which backends there are, and the one that every provider and every checker has: NumPy, products in float32 by BLAS.

Sums of products stay below 2**24 (`model.py` refuses shapes for which they might not), and
float32 holds every integer up to there, so each partial sum is exact in any order.
"""

import numpy as np

from gpu_tasks.workloads.backend_choice import ByDevice, chosen
from gpu_tasks.workloads.textgen_int8.integer_ops import Arithmetic, Array, Reference


class NumpyBackend(Reference):
    """The reference, with its two slow operations done in floats that are exact."""

    name = "numpy"

    def operand(self, values: Array) -> Array:
        """float32, in rows as BLAS reads them."""
        return np.ascontiguousarray(values, dtype=np.float32)

    def product(self, left: Array, right: Array) -> Array:
        """Products in float32, exact below 2**24."""
        return np.matmul(left.astype(np.float32), right.swapaxes(-1, -2)).astype(np.int64)

    def root(self, squares: Array) -> Array:
        """Truncated IEEE root; below n = 2**26, that of n * n - 1 lies over half an ulp under n, so never becomes n."""
        roots: Array = np.sqrt(squares.astype(np.float64)).astype(np.int64)
        return roots


def arithmetic(backend: str) -> Arithmetic:
    """The backend `numpy`, `reference`, or `torch-` with a device. LookupError, ImportError without PyTorch."""
    return chosen(backend, NumpyBackend, Reference, _torch)


def _torch() -> ByDevice[Arithmetic]:
    from gpu_tasks.workloads.torch_backends import TorchBackend  # noqa: PLC0415 (optional)

    return TorchBackend
