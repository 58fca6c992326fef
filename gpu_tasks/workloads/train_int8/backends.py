"""The backends by name, and the backend that every machine has: NumPy, with float64 products by BLAS.

float64 holds every integer up to 2**53, and no sum of products in `training_step.py` reaches that for any request and
state. Each partial sum is therefore exact, in any order, with or without fused multiplication.
"""

import numpy as np

from gpu_tasks.workloads.backend_choice import ByDevice, chosen
from gpu_tasks.workloads.train_int8.arithmetic import ExactArithmetic, IntegerArithmetic, Tensor


class FloatArithmetic(IntegerArithmetic):
    """The reference, with its one slow operation in floats that are exact."""

    name = "numpy"

    def operand(self, values: Tensor) -> Tensor:
        """Return float64."""
        return values.astype(np.float64)

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the products, computed in float64 and exact below 2**53."""
        return np.matmul(left, right).astype(np.int64)


def arithmetic(backend_name: str) -> ExactArithmetic:
    """Return the backend `numpy`, `reference`, or `torch-` with a device.

    Raise LookupError for another name or an unusable device, and ImportError without PyTorch.
    """
    return chosen(backend_name, FloatArithmetic, IntegerArithmetic, _torch)


def _torch() -> ByDevice[ExactArithmetic]:
    from gpu_tasks.workloads.torch_backends import TorchArithmetic  # noqa: PLC0415 (optional)

    return TorchArithmetic
