"""An optional backend for whoever has PyTorch: CPU, or a GPU by name of its device.

Integers are int64 tensors, products run in float64 and are exact below 2**53: no mode of reduced precision applies to
float64, and a device without it, or one that only emulates it, misses the conformance vectors.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_tasks.workloads.backend_choice import usable_device
from gpu_tasks.workloads.train_int8.arithmetic import Integers, Tensor


class TorchArithmetic:
    """`ExactArithmetic` on one torch device, such as `cpu` or `cuda:0`."""

    def __init__(self, device: str = "cpu") -> None:
        """LookupError for a device that cannot be used."""
        self.name = f"torch-{device}"
        self._device = usable_device(device)

    def put(self, values: NDArray[Any]) -> Tensor:
        """int64 on the device."""
        return torch.from_numpy(values.astype(np.int64)).to(self._device)

    def take(self, values: Tensor) -> Integers:
        """Copied back from the device."""
        taken: Integers = values.cpu().numpy()
        return taken

    def operand(self, values: Tensor) -> Tensor:
        """float64."""
        return values.to(torch.float64)

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """Products in float64, exact below 2**53."""
        return torch.matmul(left, right).to(torch.int64)

    def clamp(self, values: Tensor, low: int, high: int) -> Tensor:
        """Torch's clamp."""
        return values.clamp(low, high)

    def peak(self, values: Tensor) -> Tensor:
        """Torch's maximum."""
        return values.amax(dim=-1, keepdim=True)

    def total(self, values: Tensor) -> Tensor:
        """Torch's sum; int64 stays int64."""
        return values.sum(dim=-1, keepdim=True)

    def beside(self, values: Tensor, constant: int) -> Tensor:
        """A copy."""
        return torch.cat([values, torch.full_like(values[:, :1], constant)], dim=1)

    def sums_by_place(self, rows: Tensor, places: Tensor, count: int) -> Tensor:
        """Additions of integers: on a GPU they come in any order, and give the same."""
        return rows.new_zeros((count, rows.shape[1])).index_add_(0, places, rows)
