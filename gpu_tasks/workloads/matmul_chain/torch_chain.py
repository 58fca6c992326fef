"""The optional backend in PyTorch: a CPU, or a GPU by the name of its device.

Random words are int64, which wraps as uint64 does. Products are float32, exact below 2**24.
"""

from collections.abc import Sequence
from typing import Any

import torch

from gpu_tasks.workloads.backend_choice import usable_device
from gpu_tasks.workloads.matmul_chain.arithmetic import (
    ENTRIES,
    MIDDLE,
    MIX_BY,
    MIX_LAST,
    ROW_STEP,
    SHIFT,
    WORD_STEP,
    keys_of,
)
from gpu_tasks.workloads.matmul_chain.challenge import ChainChallenge
from gpu_tasks.workloads.torch_backends import keep_float32_exact


class TorchChain:
    """`ChainArithmetic` on one torch device, such as `cpu` or `cuda:0`."""

    def __init__(self, device: str = "cpu") -> None:
        """Raise LookupError for a device that cannot be used."""
        # TF32 would round operands, and a row of other bits fails the roll call.
        keep_float32_exact()
        self.name = f"torch-{device}"
        self._device = usable_device(device)

    def ends(self, challenge: ChainChallenge, rows: Sequence[int]) -> bytes:
        """Compute all rows at once, one product a round. Random numbers are drawn on the device."""
        size = challenge.shape.size
        drawn = self._drawn_words(keys_of(challenge.seed, b"matrix"), range(size), size)
        matrix = (drawn.view(torch.uint8).to(torch.int32) % ENTRIES - MIDDLE).to(torch.float32)
        current = self._drawn_words(keys_of(challenge.seed, b"start"), rows, size)
        for _ in range(challenge.shape.rounds):
            sums = torch.matmul(current.to(torch.float32), matrix).to(torch.int32)
            current = (((sums >> SHIFT) + 128 & 255) - 128).to(torch.int8)
        return bytes(current.cpu().numpy().tobytes())

    def _drawn_words(self, keys: tuple[int, int], rows: Sequence[int], size: int) -> Any:
        """Return the random bytes of the rows as int8[rows, size]."""
        numbers = torch.tensor(list(rows), dtype=torch.int64, device=self._device) + 1
        base = _mixed_words(numbers * _signed_word(ROW_STEP) + _signed_word(keys[0])) ^ _signed_word(keys[1])
        words = (torch.arange(-(-size // 8), dtype=torch.int64, device=self._device) + 1) * _signed_word(WORD_STEP)
        return _mixed_words(base[:, None] + words[None, :]).view(torch.int8)[:, :size].contiguous()


def _mixed_words(words: Any) -> Any:
    """Return the words after SplitMix64's finalizer.

    A shift of int64 copies the sign, so the copies are masked away.
    """
    for shift, factor in MIX_BY:
        words = (words ^ _logical_shift(words, shift)) * _signed_word(factor)
    return words ^ _logical_shift(words, MIX_LAST)


def _logical_shift(words: Any, shift: int) -> Any:
    return (words >> shift) & (2 ** (64 - shift) - 1)


def _signed_word(word: int) -> int:
    """Return a 64-bit word as a signed int64."""
    return (word ^ 2**63) - 2**63
