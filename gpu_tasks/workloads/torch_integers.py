"""Arrays of integers in PyTorch, for whoever has it: int64 tensors on a CPU, or on a GPU by name of its device."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_tasks.workloads.backend_choice import usable_device
from gpu_tasks.workloads.integer_arrays import BackendArray, Integers


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
