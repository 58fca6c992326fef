"""Backends in PyTorch, which is optional: int64 tensors on a CPU, or on a GPU by the name of its device."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_tasks.workloads.backend_choice import usable_device
from gpu_tasks.workloads.integer_arrays import BackendArray, Integers


def keep_float32_exact() -> None:
    """Turn off every mode in which float32 loses precision, TF32 among them.

    If another library turns one on again, the conformance vectors fail.
    """
    # TF32 keeps ten bits of an operand, and the sums of these workloads need 24.
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_tf32 = False


class TorchIntegers:
    """Integers on one torch device, such as `cpu` or `cuda:0`. Implements `IntegerBackend` (see there)."""

    def __init__(self, device: str = "cpu") -> None:
        """Raise LookupError for a device that cannot be used."""
        self.name = f"torch-{device}"
        self._device = usable_device(device)

    def put(self, values: NDArray[Any]) -> BackendArray:
        """Return a copy as int64 on the device."""
        return torch.from_numpy(np.array(values, dtype=np.int64)).to(self._device)

    def take(self, values: BackendArray) -> Integers:
        """Return a copy in the CPU's memory."""
        taken: Integers = values.cpu().numpy()
        return taken

    def root(self, squares: BackendArray) -> BackendArray:
        """Return the integer square roots of integers below 2**62."""
        # The float64 root can be off by an ulp, so both neighbours are tested in integers.
        roots = torch.sqrt(squares.to(torch.float64)).to(torch.int64)
        roots = roots - (roots * roots > squares).to(torch.int64)
        larger = roots + 1
        return roots + (larger * larger <= squares).to(torch.int64)

    def clamp(self, values: BackendArray, low: int, high: int) -> BackendArray:
        """Return the values, each limited to [low, high], by torch's clamp."""
        return values.clamp(low, high)

    def peak(self, values: BackendArray) -> BackendArray:
        """Return torch's maximum over the last axis."""
        return values.amax(dim=-1, keepdim=True)

    def total(self, values: BackendArray) -> BackendArray:
        """Return torch's sum over the last axis, in int64."""
        return values.sum(dim=-1, keepdim=True)


class TorchArithmetic(TorchIntegers):
    """`ExactArithmetic` of `train-int8`. Products run in float64 and are exact below 2**53.

    No mode of reduced precision applies to float64. A device that lacks float64 or emulates it inexactly fails the
    conformance vectors.
    """

    def operand(self, values: BackendArray) -> BackendArray:
        """Return the values as float64."""
        return values.to(torch.float64)

    def product(self, left: BackendArray, right: BackendArray) -> BackendArray:
        """Return the products, computed in float64."""
        # Exact in any order, also with fused multiplication: no sum of products reaches 2**53.
        return torch.matmul(left, right).to(torch.int64)

    def beside(self, values: BackendArray, constant: int) -> BackendArray:
        """Return a copy with a last column of `constant`."""
        return torch.cat([values, torch.full_like(values[:, :1], constant)], dim=1)

    def sums_by_place(self, rows: BackendArray, places: BackendArray, count: int) -> BackendArray:
        """Return the sums of rows by place. A GPU adds in any order, and integer sums do not depend on it."""
        return rows.new_zeros((count, rows.shape[1])).index_add_(0, places, rows)

    def entries(self, arrays: Sequence[BackendArray], places: Sequence[int]) -> BackendArray:
        """Return the entries in one copy, without waiting for the device."""
        return torch.stack([array.reshape(-1)[place] for array, place in zip(arrays, places, strict=True)])


class TorchArrays(TorchIntegers):
    """`ArrayArithmetic` of `render-tile`."""

    def __init__(self, device: str = "cpu") -> None:
        """Raise LookupError for a device that cannot be used."""
        super().__init__(device)
        self.paths = 1 << (20 if device.startswith("cuda") else 14)

    def choose(self, conditions: BackendArray, values: BackendArray, others: BackendArray) -> BackendArray:
        """Return torch's `where` of two values."""
        return torch.where(conditions, values, others)

    def lesser(self, left: BackendArray, right: BackendArray) -> BackendArray:
        """Return torch's minimum of two arrays."""
        return torch.minimum(left, right)

    def greater(self, left: BackendArray, right: BackendArray) -> BackendArray:
        """Return torch's maximum of two arrays."""
        return torch.maximum(left, right)

    def where(self, conditions: BackendArray) -> BackendArray:
        """Return torch's `nonzero` as a flat array."""
        return torch.nonzero(conditions).reshape(-1)

    def at(self, values: BackendArray, array_places: BackendArray) -> BackendArray:
        """Return torch's `index_select` along the last axis."""
        return values.index_select(values.dim() - 1, array_places)
