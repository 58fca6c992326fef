"""An optional backend for whoever has PyTorch: CPU, or a GPU by name of its device.

Products run in float32 and are exact below 2**24.
"""

import torch

from gpu_tasks.workloads.textgen_int8.integer_ops import Array
from gpu_tasks.workloads.torch_integers import TorchIntegers, keep_float32_exact

LANES, GPU_LANES = 32, 512


class TorchBackend(TorchIntegers):
    """`Arithmetic` on one torch device."""

    def __init__(self, device: str = "cpu") -> None:
        """LookupError for a device that cannot be used."""
        keep_float32_exact()
        super().__init__(device)
        self.lanes = LANES if self._device.type == "cpu" else GPU_LANES

    def operand(self, values: Array) -> Array:
        """float32."""
        return values.to(torch.float32).contiguous()

    def product(self, left: Array, right: Array) -> Array:
        """Products in float32, exact below 2**24."""
        return torch.matmul(left.to(torch.float32), right.swapaxes(-1, -2)).to(torch.int64)
