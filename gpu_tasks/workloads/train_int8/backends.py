"""Which backends there are, and the one that everybody has: NumPy, products in float64 by BLAS.

float64 holds every integer up to 2**53, and no sum of products in `training_step.py` reaches that, whatever the request
and the state: so each partial sum is exact, in any order, with fused multiplication or without.
"""

import numpy as np

from gpu_tasks.workloads.backend_choice import ByDevice, chosen
from gpu_tasks.workloads.train_int8.arithmetic import ExactArithmetic, IntegerArithmetic, Tensor


class FloatArithmetic(IntegerArithmetic):
    """The reference, with its one slow operation done in floats that are exact."""

    name = "numpy"

    def operand(self, values: Tensor) -> Tensor:
        """float64."""
        return values.astype(np.float64)

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """Products in float64, exact below 2**53."""
        return np.matmul(left, right).astype(np.int64)


def arithmetic(backend: str) -> ExactArithmetic:
    """The backend `numpy`, `reference`, or `torch-` with a device. LookupError, ImportError without PyTorch."""
    return chosen(backend, FloatArithmetic, IntegerArithmetic, _torch)


def _torch() -> ByDevice[ExactArithmetic]:
    from gpu_tasks.workloads.torch_backends import TorchArithmetic  # noqa: PLC0415 (optional)

    return TorchArithmetic
