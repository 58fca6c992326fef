"""The arithmetic in PyTorch, which is optional: exact integers in float64 and products in float32, as in NumPy."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_tasks.workloads.backend_choice import usable_device
from gpu_tasks.workloads.integer_arrays import BackendArray, Integers
from gpu_tasks.workloads.integer_transformer.arithmetic import CPU_SCORES
from gpu_tasks.workloads.integer_transformer.numpy_backend import LIMB, column_parts, key_parts
from gpu_tasks.workloads.torch_backends import keep_float32_exact

FLOAT64_BIAS, FLOAT64_FRACTION = 1023, 52
GPU_SCORES = 1 << 25
"""Scores of attention at once on a GPU: 256 MiB in float64. Smaller products would leave most of it idle."""


class TorchFloatBackend:
    """PyTorch on one device, such as `cpu` or `cuda:0`. Implements `Arithmetic` (see there)."""

    def __init__(self, device: str = "cpu") -> None:
        """Raise LookupError for a device that cannot be used."""
        keep_float32_exact()
        self.name = f"torch-{device}"
        self._device = usable_device(device)
        self.scores_at_once = CPU_SCORES if self._device.type == "cpu" else GPU_SCORES

    def put(self, values: NDArray[Any]) -> BackendArray:
        """Return a copy as float64 on the device."""
        return torch.from_numpy(np.array(values, dtype=np.float64)).to(self._device)

    def take(self, values: BackendArray) -> Integers:
        """Return a copy as int64 in the CPU's memory."""
        taken: Integers = values.to(torch.int64).cpu().numpy()
        return taken

    def operand(self, values: Any) -> BackendArray:
        """Return contiguous float32 on the device."""
        if isinstance(values, torch.Tensor):
            return values.to(torch.float32).contiguous()
        return torch.from_numpy(np.array(values, dtype=np.float32)).to(self._device)

    def stored(self, values: BackendArray) -> BackendArray:
        """Return int8 on the device."""
        return values.to(torch.int8)

    def indices(self, places: Integers) -> BackendArray:
        """Return int64 on the device."""
        return torch.from_numpy(np.array(places, dtype=np.int64)).to(self._device)

    def numbers(self, shape: tuple[int, ...]) -> BackendArray:
        """Return float64 zeros."""
        return torch.zeros(shape, dtype=torch.float64, device=self._device)

    def operands(self, shape: tuple[int, ...]) -> BackendArray:
        """Return int8 zeros."""
        return torch.zeros(shape, dtype=torch.int8, device=self._device)

    def product(self, scaled: BackendArray, operand: BackendArray) -> BackendArray:
        """Multiply the limbs in float32, which reads the operand once for both."""
        limbs = _limbs(torch.floor(scaled * (1 / LIMB) + 0.5), scaled)
        parts = [
            _joined_limbs(torch.matmul(limbs[..., part], operand[..., part].to(torch.float32).swapaxes(-1, -2)))
            for part in column_parts(scaled.shape[-1])
        ]
        return sum(parts[1:], parts[0])

    def mix(self, shares: BackendArray, operand: BackendArray) -> BackendArray:
        """Multiply the limbs in float32, in parts of the keys."""
        limbs = _limbs(torch.floor(shares * (1 / LIMB)), shares)
        parts = [
            _joined_limbs(torch.matmul(limbs[..., keys], operand[..., keys, :].to(torch.float32)))
            for keys in key_parts(shares.shape[-1])
        ]
        return sum(parts[1:], parts[0])

    def shifted(self, values: BackendArray, shift: BackendArray) -> BackendArray:
        """Multiply by a power of two, which is exact, and round down."""
        return torch.floor(values * self._power(shift))

    def rounded(self, values: BackendArray, shift: BackendArray) -> BackendArray:
        """Multiply by a power of two, which is exact, add a half, and round down."""
        return (values * self._power(shift)).add_(0.5).floor_()

    def rescaled(
        self, values: BackendArray, mantissas: BackendArray, shift: BackendArray, other_shift: BackendArray
    ) -> BackendArray:
        """Multiply by mantissa and powers of two, add a half, and round down."""
        result = values * (mantissas * self._power(shift))
        return (result * self._power(other_shift)).add_(0.5).floor_()

    def quotient(self, dividend: BackendArray, divisor: BackendArray) -> BackendArray:
        """Divide in IEEE arithmetic, and round down (see `FloatBackend`)."""
        return (dividend / divisor).floor_()

    def root(self, squares: BackendArray) -> BackendArray:
        """Round the IEEE root down (see `FloatBackend`)."""
        return torch.sqrt(squares).floor_()

    def bit_length(self, values: BackendArray) -> BackendArray:
        """Return the exponent of the float."""
        return torch.frexp(values)[1].to(torch.float64)

    def entries(self, table: BackendArray, places: BackendArray) -> BackendArray:
        """Index the table."""
        return table[places.to(torch.int64)]

    def joined(self, first: BackendArray, second: BackendArray) -> BackendArray:
        """Return torch's concatenation."""
        return torch.cat([first, second], dim=-1)

    def clamp(self, values: BackendArray, low: int, high: int) -> BackendArray:
        """Return the values, each limited to [low, high], by torch's clamp."""
        return values.clamp(low, high)

    def largest(self, values: BackendArray) -> BackendArray:
        """Return torch's maximum of absolute values."""
        return values.abs().amax(dim=-1, keepdim=True)

    def peak(self, values: BackendArray) -> BackendArray:
        """Return torch's maximum over the last axis."""
        return values.amax(dim=-1, keepdim=True)

    def total(self, values: BackendArray) -> BackendArray:
        """Return torch's sum over the last axis, exact in any order below 2**53."""
        return values.sum(dim=-1, keepdim=True)

    def _power(self, shift: Any) -> BackendArray:
        """Return 2**-shift from its bits: torch's `ldexp` takes a power in float32 on the way."""
        exponents = torch.as_tensor(shift, device=self._device).to(torch.int64)
        return ((FLOAT64_BIAS - exponents) << FLOAT64_FRACTION).view(torch.float64)


def _limbs(high: BackendArray, values: BackendArray) -> BackendArray:
    """Return float32[..., 2 * m, k]: the high limbs, then the low ones."""
    return torch.cat([high, values - high * LIMB], dim=-2).to(torch.float32)


def _joined_limbs(sums: BackendArray) -> BackendArray:
    """Return float64[..., m, n] of the sums of both limbs, float32[..., 2 * m, n]."""
    high, low = sums.to(torch.float64).chunk(2, dim=-2)
    return high * LIMB + low
