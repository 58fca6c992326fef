"""Backends for whoever has PyTorch: int64 tensors on a CPU, or on a GPU by name of its device."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_tasks.workloads.backend_choice import usable_device
from gpu_tasks.workloads.integer_arrays import BackendArray, Integers

LANES, GPU_LANES = 32, 512
"""Texts that `textgen-int8` decodes side by side."""


def keep_float32_exact() -> None:
    """Turn off every mode in which float32 is not float32, TF32 among them.

    Should another library switch one on again, the conformance vectors tell.
    """
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_tf32 = False


class TorchIntegers:
    """On one torch device, such as `cpu` or `cuda:0`; `put`, `take` and so on as `IntegerBackend` has them."""

    def __init__(self, device: str = "cpu") -> None:
        """LookupError for a device that cannot be used."""
        self.name = f"torch-{device}"
        self._device = usable_device(device)

    def put(self, values: NDArray[Any]) -> BackendArray:
        """int64 on the device."""
        return torch.from_numpy(np.array(values, dtype=np.int64)).to(self._device)

    def take(self, values: BackendArray) -> Integers:
        """Copied back from the device."""
        taken: Integers = values.cpu().numpy()
        return taken

    def root(self, squares: BackendArray) -> BackendArray:
        """Roots of integers below 2**62: torch's float64 root is off by an ulp at times, and is put right."""
        found = torch.sqrt(squares.to(torch.float64)).to(torch.int64)
        found = found - (found * found > squares).to(torch.int64)
        larger = found + 1
        return found + (larger * larger <= squares).to(torch.int64)

    def clamp(self, values: BackendArray, low: int, high: int) -> BackendArray:
        """Torch's clamp."""
        return values.clamp(low, high)

    def peak(self, values: BackendArray) -> BackendArray:
        """Torch's maximum."""
        return values.amax(dim=-1, keepdim=True)

    def total(self, values: BackendArray) -> BackendArray:
        """Torch's sum; int64 stays int64."""
        return values.sum(dim=-1, keepdim=True)


class TorchBackend(TorchIntegers):
    """`Arithmetic` of `textgen-int8`: products run in float32, and are exact below 2**24."""

    def __init__(self, device: str = "cpu") -> None:
        """LookupError for a device that cannot be used."""
        keep_float32_exact()
        super().__init__(device)
        self.lanes = LANES if self._device.type == "cpu" else GPU_LANES

    def operand(self, values: BackendArray) -> BackendArray:
        """float32."""
        return values.to(torch.float32).contiguous()

    def product(self, left: BackendArray, right: BackendArray) -> BackendArray:
        """Products in float32."""
        return torch.matmul(left.to(torch.float32), right.swapaxes(-1, -2)).to(torch.int64)


class TorchArithmetic(TorchIntegers):
    """`ExactArithmetic` of `train-int8`: products run in float64, and are exact below 2**53.

    No mode of reduced precision applies to float64, and a device without it, or one that only emulates it, misses the
    conformance vectors.
    """

    def operand(self, values: BackendArray) -> BackendArray:
        """float64."""
        return values.to(torch.float64)

    def product(self, left: BackendArray, right: BackendArray) -> BackendArray:
        """Products in float64."""
        return torch.matmul(left, right).to(torch.int64)

    def beside(self, values: BackendArray, constant: int) -> BackendArray:
        """A copy."""
        return torch.cat([values, torch.full_like(values[:, :1], constant)], dim=1)

    def sums_by_place(self, rows: BackendArray, places: BackendArray, count: int) -> BackendArray:
        """Additions of integers: on a GPU they come in any order, and give the same."""
        return rows.new_zeros((count, rows.shape[1])).index_add_(0, places, rows)


class TorchArrays(TorchIntegers):
    """`ArrayArithmetic` of `render-tile`."""

    def __init__(self, device: str = "cpu") -> None:
        """LookupError for a device that cannot be used."""
        super().__init__(device)
        self.paths = 1 << (20 if device.startswith("cuda") else 14)

    def choose(self, truths: BackendArray, values: BackendArray, others: BackendArray) -> BackendArray:
        """Torch's `where`."""
        return torch.where(truths, values, others)

    def lesser(self, left: BackendArray, right: BackendArray) -> BackendArray:
        """Torch's minimum."""
        return torch.minimum(left, right)

    def greater(self, left: BackendArray, right: BackendArray) -> BackendArray:
        """Torch's maximum."""
        return torch.maximum(left, right)

    def where(self, truths: BackendArray) -> BackendArray:
        """Torch's flat `nonzero`."""
        return torch.nonzero(truths).reshape(-1)

    def at(self, values: BackendArray, places: BackendArray) -> BackendArray:
        """Torch's `index_select`."""
        return values.index_select(values.dim() - 1, places)
