"""An optional backend for whoever has PyTorch: CPU, or a GPU by name of its device.

Products run in float64 and are exact below 2**53: no mode of reduced precision applies to
float64, and a device without it, or one that only emulates it, misses the conformance vectors.
"""

import torch

from gpu_tasks.workloads.torch_integers import TorchIntegers
from gpu_tasks.workloads.train_int8.arithmetic import Tensor


class TorchArithmetic(TorchIntegers):
    """`ExactArithmetic` on one torch device."""

    def operand(self, values: Tensor) -> Tensor:
        """float64."""
        return values.to(torch.float64)

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """Products in float64, exact below 2**53."""
        return torch.matmul(left, right).to(torch.int64)

    def beside(self, values: Tensor, constant: int) -> Tensor:
        """A copy."""
        return torch.cat([values, torch.full_like(values[:, :1], constant)], dim=1)

    def sums_by_place(self, rows: Tensor, places: Tensor, count: int) -> Tensor:
        """Additions of integers: on a GPU they come in any order, and give the same."""
        return rows.new_zeros((count, rows.shape[1])).index_add_(0, places, rows)
