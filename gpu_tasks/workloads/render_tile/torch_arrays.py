"""An optional backend for whoever has PyTorch: CPU, or a GPU by name of its device.

Int64Array are int64 tensors throughout. PyTorch's root in float64 is off by an ulp at times, on some processors: it is
put right as NumPy's is.
"""

from typing import Any

import numpy as np
import torch

from gpu_tasks.workloads.backend_choice import usable_device
from gpu_tasks.workloads.render_tile.array_arithmetic import Int64Array, PathArray


class TorchArrays:
    """`ArrayArithmetic` on one torch device, such as `cpu` or `cuda:0`."""

    def __init__(self, device: str = "cpu") -> None:
        """LookupError for a device that cannot be used."""
        self.name = f"torch-{device}"
        self.paths = 1 << (20 if device.startswith("cuda") else 14)
        self._device = usable_device(device)

    def put(self, values: Any) -> PathArray:
        """int64 on the device."""
        return torch.from_numpy(np.array(values, dtype=np.int64)).to(self._device)

    def take(self, values: PathArray) -> Int64Array:
        """Copied back from the device."""
        taken: Int64Array = values.cpu().numpy()
        return taken

    def root(self, squares: PathArray) -> PathArray:
        """By float64, put right."""
        found = torch.sqrt(squares.to(torch.float64)).to(torch.int64)
        found = found - (found * found > squares).to(torch.int64)
        return found + ((found + 1) * (found + 1) <= squares).to(torch.int64)

    def choose(self, truths: PathArray, values: PathArray, others: PathArray) -> PathArray:
        """Torch's `where`."""
        return torch.where(truths, values, others)

    def lesser(self, left: PathArray, right: PathArray) -> PathArray:
        """Torch's minimum."""
        return torch.minimum(left, right)

    def greater(self, left: PathArray, right: PathArray) -> PathArray:
        """Torch's maximum."""
        return torch.maximum(left, right)

    def where(self, truths: PathArray) -> PathArray:
        """Torch's flat `nonzero`."""
        return torch.nonzero(truths).reshape(-1)

    def at(self, values: PathArray, places: PathArray) -> PathArray:
        """Torch's `index_select`."""
        return values.index_select(values.dim() - 1, places)
