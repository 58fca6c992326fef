"""The chain in NumPy: chance in uint64, which wraps, products in float32, which are exact below 2**24."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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


class NumpyChain:
    """The backend that everybody has."""

    name = "numpy"

    def ends(self, asked: ChainChallenge, rows: Sequence[int]) -> bytes:
        """All rows at once, a product a round."""
        size = asked.shape.size
        drawn = _drawn(keys_of(asked.seed, b"matrix"), range(size), size)
        matrix = (drawn % ENTRIES).astype(np.float32) - np.float32(MIDDLE)
        current = _drawn(keys_of(asked.seed, b"start"), rows, size).view(np.int8)
        for _ in range(asked.shape.rounds):
            sums = np.matmul(current.astype(np.float32), matrix).astype(np.int32)
            current = (sums >> SHIFT).astype(np.int8)
        return current.tobytes()


def _drawn(keys: tuple[int, int], rows: Sequence[int], size: int) -> NDArray[np.uint8]:
    """uint8[rows, size]."""
    numbers = np.asarray(rows, dtype=np.uint64) + np.uint64(1)
    base = _mixed(np.uint64(keys[0]) + numbers * np.uint64(ROW_STEP)) ^ np.uint64(keys[1])
    words = (np.arange(-(-size // 8), dtype=np.uint64) + np.uint64(1)) * np.uint64(WORD_STEP)
    drawn = _mixed(base[:, None] + words[None, :]).astype("<u8")
    return np.ascontiguousarray(drawn.view(np.uint8)[:, :size])


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finalizer."""
    for shift, factor in MIX_BY:
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    mixed: NDArray[np.uint64] = words ^ (words >> np.uint64(MIX_LAST))
    return mixed
