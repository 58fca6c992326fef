"""An optional backend for whoever has PyTorch: CPU, or a GPU by name of its device."""

import torch

from gpu_tasks.workloads.render_tile.array_arithmetic import PathArray
from gpu_tasks.workloads.torch_integers import TorchIntegers


class TorchArrays(TorchIntegers):
    """`ArrayArithmetic` on one torch device."""

    def __init__(self, device: str = "cpu") -> None:
        """LookupError for a device that cannot be used."""
        super().__init__(device)
        self.paths = 1 << (20 if device.startswith("cuda") else 14)

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
