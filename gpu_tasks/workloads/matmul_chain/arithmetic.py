"""The interface of a backend, its random numbers, the reference in plain integers, and the backend in NumPy.

    A = size x size numbers of -63 to 63, X0 = rows x size numbers of -128 to 127, both from the seed
    X(t+1) = the low 8 bits, signed, of (X(t) A) >> 6        `rounds` times

Invariant: a row of the end depends only on its row of X0 and on A. The shift and the cut make a round non-linear.
Without them a prover could square A, and `rounds` products would cost their logarithm. Random numbers are one 64-bit
word for each row and each eight columns, mixed by the finalizer of SplitMix64 (Steele, Lea, Flood 2014), so k rows cost
k draws.

In NumPy the random words are uint64, which wraps. Products are float32, which is exact below 2**24.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpu_tasks.workloads.matmul_chain.challenge import ChainChallenge

MASK = 2**64 - 1
ROW_STEP, WORD_STEP = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
MIX_BY = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
MIX_LAST = 31
SHIFT = 6
ENTRIES, MIDDLE = 127, 63
"""A number of A is a byte modulo 127, less 63."""
_DOMAIN = b"ogpu/matmul-chain/1/"


class ChainArithmetic(Protocol):
    """One way to compute rows of the end of a chain."""

    name: str
    """The name, such as `numpy`."""

    def ends(self, challenge: ChainChallenge, rows: Sequence[int]) -> bytes:
        """Return the last values of these rows, one byte a number, in the order of `rows`."""
        ...


def keys_of(seed: bytes, purpose: bytes) -> tuple[int, int]:
    """Return the two 64-bit keys of a matrix; `purpose` is `matrix` or `start`."""
    digest = blake2b(_DOMAIN + purpose + seed, digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


class ReferenceChain:
    """Plain Python integers: slow, and correct by inspection."""

    name = "reference"

    def ends(self, challenge: ChainChallenge, rows: Sequence[int]) -> bytes:
        """Compute row by row, number by number."""
        size = challenge.shape.size
        matrix = [
            [byte % ENTRIES - MIDDLE for byte in _drawn_bytes(keys_of(challenge.seed, b"matrix"), row, size)]
            for row in range(size)
        ]
        columns = list(zip(*matrix, strict=True))
        start = keys_of(challenge.seed, b"start")
        return b"".join(_row_end(_drawn_bytes(start, row, size), columns, challenge.shape.rounds) for row in rows)


def _row_end(first: bytes, columns: Sequence[Sequence[int]], rounds: int) -> bytes:
    """Return a row after all rounds."""
    current = first
    for _ in range(rounds):
        signed = [(byte ^ 128) - 128 for byte in current]
        sums = [sum(map(int.__mul__, signed, column)) for column in columns]
        # Without the shift and the cut, a round would be linear, and the matrix could be squared ahead of all rows.
        current = bytes((total >> SHIFT) & 255 for total in sums)
    return current


def _drawn_bytes(keys: tuple[int, int], row: int, size: int) -> bytes:
    """Return `size` random bytes of a row."""
    base = _mixed_word(keys[0] + (row + 1) * ROW_STEP) ^ keys[1]
    words = (_mixed_word(base + (word + 1) * WORD_STEP) for word in range(-(-size // 8)))
    return b"".join(word.to_bytes(8, "little") for word in words)[:size]


def _mixed_word(word: int) -> int:
    """Return the word after SplitMix64's finalizer."""
    word &= MASK
    for shift, factor in MIX_BY:
        word = (word ^ (word >> shift)) * factor & MASK
    return word ^ (word >> MIX_LAST)


class NumpyChain:
    """The backend in NumPy, which every machine has."""

    name = "numpy"

    def ends(self, challenge: ChainChallenge, rows: Sequence[int]) -> bytes:
        """Compute all rows at once, one product a round."""
        size = challenge.shape.size
        drawn = _drawn_array(keys_of(challenge.seed, b"matrix"), range(size), size)
        matrix = (drawn % ENTRIES).astype(np.float32) - np.float32(MIDDLE)
        current = _drawn_array(keys_of(challenge.seed, b"start"), rows, size).view(np.int8)
        for _ in range(challenge.shape.rounds):
            # In float32, because NumPy multiplies integers without BLAS. No sum passes 2**24, so each is exact.
            sums = np.matmul(current.astype(np.float32), matrix).astype(np.int32)
            current = (sums >> SHIFT).astype(np.int8)
        return current.tobytes()


def _drawn_array(keys: tuple[int, int], rows: Sequence[int], size: int) -> NDArray[np.uint8]:
    """Return the random bytes of the rows as uint8[rows, size]."""
    numbers = np.asarray(rows, dtype=np.uint64) + np.uint64(1)
    base = _mixed_array(np.uint64(keys[0]) + numbers * np.uint64(ROW_STEP)) ^ np.uint64(keys[1])
    words = (np.arange(-(-size // 8), dtype=np.uint64) + np.uint64(1)) * np.uint64(WORD_STEP)
    # Little-endian on every machine, because the words are read as bytes.
    drawn = _mixed_array(base[:, None] + words[None, :]).astype("<u8")
    return np.ascontiguousarray(drawn.view(np.uint8)[:, :size])


def _mixed_array(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the words after SplitMix64's finalizer."""
    for shift, factor in MIX_BY:
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    mixed: NDArray[np.uint64] = words ^ (words >> np.uint64(MIX_LAST))
    return mixed
