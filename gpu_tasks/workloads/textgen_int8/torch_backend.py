"""An optional backend for whoever has PyTorch: CPU, or a GPU by name of its device.

Integers are int64 tensors, products run in float32 and are exact below 2**24. Reduced-precision
modes (TF32, bf16 in place of float32) would break that, so they are switched off here; should
another library switch them on again, the conformance vectors tell.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_tasks.workloads.backend_choice import usable_device
from gpu_tasks.workloads.textgen_int8.integer_ops import Array, Ints

LANES, GPU_LANES = 32, 512


class TorchBackend:
    """`Arithmetic` on one torch device, such as `cpu` or `cuda:0`."""

    def __init__(self, device: str = "cpu") -> None:
        """Turn off every mode in which float32 is not float32. LookupError for a device that cannot be used."""
        torch.set_float32_matmul_precision("highest")
        torch.backends.cuda.matmul.allow_tf32 = False
        self.name = f"torch-{device}"
        self._device = usable_device(device)
        self.lanes = LANES if self._device.type == "cpu" else GPU_LANES

    def put(self, values: NDArray[Any]) -> Array:
        """int64 on the device."""
        return torch.from_numpy(values.astype(np.int64)).to(self._device)

    def take(self, values: Array) -> Ints:
        """Copied back from the device."""
        taken: Ints = values.cpu().numpy()
        return taken

    def operand(self, values: Array) -> Array:
        """float32."""
        return values.to(torch.float32).contiguous()

    def product(self, left: Array, right: Array) -> Array:
        """Products in float32, exact below 2**24."""
        return torch.matmul(left.to(torch.float32), right.swapaxes(-1, -2)).to(torch.int64)

    def root(self, squares: Array) -> Array:
        """Torch's float64 root is off by an ulp at times: put right by integer comparison."""
        found = torch.sqrt(squares.to(torch.float64)).to(torch.int64)
        found = found - (found * found > squares).to(torch.int64)
        larger = found + 1
        return found + (larger * larger <= squares).to(torch.int64)

    def clamp(self, values: Array, low: int, high: int) -> Array:
        """Torch's clamp."""
        return values.clamp(low, high)

    def peak(self, values: Array) -> Array:
        """Torch's maximum."""
        return values.amax(dim=-1, keepdim=True)

    def total(self, values: Array) -> Array:
        """Torch's sum; int64 stays int64."""
        return values.sum(dim=-1, keepdim=True)
