"""The backend that every provider and checker has: exact integers in NumPy's float64, and products in float32.

Every integer stays below 2**53, which float64 holds exactly; powers of two only move the exponent. A product of 16-bit
by 8-bit integers is taken as two products of 8-bit integers ("limbs"), whose sums stay below 2**24 and are exact in
float32 in any order, with or without fused multiply-add.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_tasks.workloads.integer_arrays import BackendArray, Integers
from gpu_tasks.workloads.integer_transformer.arithmetic import CPU_SCORES

COLUMNS_A_PRODUCT = 1024
"""A sum of this many products of two integers of at most 128 and 127 is below 2**24."""
KEYS_A_PRODUCT = 512
"""A sum of this many products of two integers of at most 255 and 127 is below 2**24."""
LIMB = 256
FEW_ROWS = 64
"""Rows of limbs up to which an operand is the left factor of its product."""
_LIMB, _LIMB_INVERSE = np.float32(LIMB), np.float32(1 / LIMB)
HALF, NONE = np.float32(0.5), np.float32(0)


class FloatBackend:
    """NumPy. Implements `Arithmetic` (see there)."""

    name = "numpy"
    scores_at_once = CPU_SCORES

    def put(self, values: NDArray[Any]) -> BackendArray:
        """Return a copy as float64."""
        return np.asarray(values, dtype=np.float64)

    def take(self, values: BackendArray) -> Integers:
        """Return a copy as int64."""
        return np.asarray(values).astype(np.int64)

    def operand(self, values: NDArray[Any]) -> BackendArray:
        """Return float32 in contiguous rows, which BLAS reads fastest."""
        return np.ascontiguousarray(values, dtype=np.float32)

    def stored(self, values: BackendArray) -> BackendArray:
        """Return int8: keys and values of many positions take a quarter of the memory of float32."""
        return values.astype(np.int8)

    def indices(self, places: Integers) -> BackendArray:
        """Return the places as they are."""
        return places

    def numbers(self, shape: tuple[int, ...]) -> BackendArray:
        """Return float64 zeros."""
        return np.zeros(shape, dtype=np.float64)

    def operands(self, shape: tuple[int, ...]) -> BackendArray:
        """Return int8 zeros."""
        return np.zeros(shape, dtype=np.int8)

    def product(self, scaled: BackendArray, operand: BackendArray) -> BackendArray:
        """Multiply the limbs by BLAS, which reads the operand once for both."""
        limbs = _limbs(scaled, HALF)
        parts = [
            _joined_limbs(_rows_by_rows(limbs[..., part], _floats(operand[..., part])))
            for part in column_parts(scaled.shape[-1])
        ]
        return _sum(parts)

    def mix(self, shares: BackendArray, operand: BackendArray) -> BackendArray:
        """Multiply the limbs by BLAS, in parts of the keys."""
        limbs = _limbs(shares, NONE)
        parts = [
            _joined_limbs(np.matmul(limbs[..., keys], _floats(operand[..., keys, :])))
            for keys in key_parts(shares.shape[-1])
        ]
        return _sum(parts)

    def shifted(self, values: BackendArray, shift: BackendArray) -> BackendArray:
        """Multiply by a power of two, which is exact, and round down."""
        result = values * _power(shift)
        return np.floor(result, out=result)

    def rounded(self, values: BackendArray, shift: BackendArray) -> BackendArray:
        """Multiply by a power of two, which is exact, add a half, and round down."""
        result = values * _power(shift)
        result += 0.5
        return np.floor(result, out=result)

    def rescaled(
        self, values: BackendArray, mantissas: BackendArray, shift: BackendArray, other_shift: BackendArray
    ) -> BackendArray:
        """Multiply by mantissa and powers of two, add a half, and round down."""
        result = values * (mantissas * _power(shift))
        if np.any(other_shift):
            result *= _power(other_shift)
        result += 0.5
        return np.floor(result, out=result)

    def quotient(self, dividend: BackendArray, divisor: BackendArray) -> BackendArray:
        """Divide in IEEE arithmetic, and round down.

        Below 2**52 a quotient lies at least half a unit in the last place under the next integer, and never becomes it.
        """
        result = dividend / divisor
        return np.floor(result, out=result)

    def root(self, squares: BackendArray) -> BackendArray:
        """Round the IEEE root down. For n up to 2**26 the root of n * n - 1 never rounds up to n."""
        return np.floor(np.sqrt(squares))

    def bit_length(self, values: BackendArray) -> BackendArray:
        """Return the exponent of the float."""
        return np.frexp(values)[1].astype(np.float64)

    def entries(self, table: BackendArray, places: BackendArray) -> BackendArray:
        """Index the table. `clip` only avoids a copy: no place is outside."""
        return table.take(places.astype(np.intp), mode="clip")

    def joined(self, first: BackendArray, second: BackendArray) -> BackendArray:
        """Return NumPy's concatenation."""
        return np.concatenate([first, second], axis=-1)

    def clamp(self, values: BackendArray, low: int, high: int) -> BackendArray:
        """Return the values, limited by NumPy's clip."""
        return np.clip(values, low, high)

    def largest(self, values: BackendArray) -> BackendArray:
        """Return the larger of the maximum and the negated minimum."""
        return np.maximum(values.max(axis=-1, keepdims=True), -values.min(axis=-1, keepdims=True))

    def peak(self, values: BackendArray) -> BackendArray:
        """Return NumPy's maximum over the last axis."""
        return values.max(axis=-1, keepdims=True)

    def total(self, values: BackendArray) -> BackendArray:
        """Return NumPy's sum over the last axis, exact in any order below 2**53."""
        return values.sum(axis=-1, keepdims=True)


def column_parts(columns: int) -> list[slice]:
    """Cut the columns of `product` into parts with sums below 2**24."""
    return _parts(columns, COLUMNS_A_PRODUCT)


def key_parts(keys: int) -> list[slice]:
    """Cut the keys of `mix` into parts with sums below 2**24."""
    return _parts(keys, KEYS_A_PRODUCT)


def _parts(count: int, most: int) -> list[slice]:
    # Parts of equal size: a short last part would cost nearly as much as a whole one.
    step = -(-count // -(-count // most))
    return [slice(start, start + step) for start in range(0, count, step)]


def _power(shift: BackendArray) -> BackendArray:
    return np.ldexp(1.0, -np.asarray(shift).astype(np.int32))


def _limbs(values: BackendArray, rounding: np.float32) -> BackendArray:
    """Return float32[..., 2 * m, k]: the high limbs, `floor(values / LIMB + rounding) * LIMB`, then the low ones."""
    rows = values.shape[-2]
    limbs = np.empty((*values.shape[:-2], 2 * rows, values.shape[-1]), dtype=np.float32)
    high, low = limbs[..., :rows, :], limbs[..., rows:, :]
    # Exact in float32: the integers have at most 17 bits.
    low[...] = values
    np.multiply(low, _LIMB_INVERSE, out=high)
    high += rounding
    np.floor(high, out=high)
    # A power of two changes no bit of a sum, so the factor is here, where the arrays are small.
    high *= _LIMB
    low -= high
    return limbs


def _floats(operand: BackendArray) -> BackendArray:
    """Return an operand as float32. A matrix is float32 already, and stored keys and values are int8."""
    return operand.astype(np.float32, copy=False)


def _rows_by_rows(limbs: BackendArray, operand: BackendArray) -> BackendArray:
    """Return `limbs[..., r, k] @ operand[..., n, k].T`."""
    if limbs.shape[-2] > FEW_ROWS:
        return np.matmul(limbs, operand.swapaxes(-1, -2))
    # OpenBLAS copies a transposed operand. Measured for few rows: 1 to 2.7 times as fast without the copy.
    return np.matmul(operand, np.ascontiguousarray(limbs.swapaxes(-1, -2))).swapaxes(-1, -2)


def _joined_limbs(sums: BackendArray) -> BackendArray:
    """Return float64[..., m, n] of the sums of both limbs, float32[..., 2 * m, n]."""
    rows = sums.shape[-2] // 2
    result = sums[..., :rows, :].astype(np.float64)
    result += sums[..., rows:, :]
    return result


def _sum(parts: list[BackendArray]) -> BackendArray:
    result = parts[0]
    for part in parts[1:]:
        result += part
    return result
