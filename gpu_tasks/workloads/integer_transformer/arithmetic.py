"""The arithmetic of models in integers: this file is the specification, and it uses integers only.

Notation: a *fixed-point* number is an integer in a stated unit. *Scaled* activations are integers of 15 bits and a
sign with one exponent for each token: the value is `integers * 2**exponent`. Weights have 7 bits and a sign, and each
row has a scale `mantissa * 2**-exponent` with a mantissa of 16 bits. Shifts and divisions round towards minus infinity.

Every intermediate value stays below 2**53, so a backend may hold all of them in float64 and still be exact. Products of
16-bit by 8-bit integers are sums of two products of 8-bit integers, each below 2**24, so float32 computes them exactly
in any order. `PlainBackend` uses no float.

Sources: RMSNorm arXiv:1910.07467, layer norm arXiv:1607.06450, GELU arXiv:1606.08415, rotary positions
arXiv:2104.09864, grouped queries arXiv:2305.13245, SwiGLU arXiv:2002.05202; scales by row and token as in ZeroQuant
(arXiv:2206.01861).
"""

from dataclasses import dataclass
from math import isqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpu_tasks.workloads.integer_arrays import BackendArray, Integers, PlainIntegers

SCALED_BITS = 15
WEIGHT_MAX = 127
MANTISSA_BITS = 16
UNIT_BITS = 14
"""Queries, keys, values, gates and rotary factors are fixed-point numbers in units of 2**-14."""
VALUE_MAX = (1 << 26) - 1
STREAM_BITS = 18
"""The residual stream and its updates are in units of 2**-18."""
STREAM_MAX = 1 << 37
LOGIT_BITS = 16
"""Logits are base-2 logarithms in units of 2**-16."""
LOGIT_MAX = 1 << 30
EPSILON_BITS = 40

EXP_STEP_BITS = 12
EXP_BITS = 24
EXP_ENTRIES = 25 * (1 << EXP_STEP_BITS) + 1
"""Table of 2**(-i / 4096) in units of 2**-24, down to 0."""
SIGMOID_STEP_BITS = 11
SIGMOID_ENTRIES = 32 << SIGMOID_STEP_BITS
"""Table of the logistic function from -16 to 16 in steps of 2**-11, in units of 2**-16."""
SIGMOID_BITS = 16
NORMAL_STEP_BITS = 12
NORMAL_ENTRIES = 16 << NORMAL_STEP_BITS
"""Table of the distribution function of the normal distribution from -8 to 8 in steps of 2**-12, in units of 2**-16."""
NORMAL_BITS = 16
CENTRED_MAX = 1 << 38
"""Of a stream before and behind a layer norm: the sum of 2**13 of them is below 2**52."""
SCALE_BITS = 24
"""A factor of `eight_bits` is in units of 2**-24."""
SHARE_BITS = 16
VALUE_SHIFT = 5
"""Above the exponent of every value's scale."""
HIDDEN_SCORE = 1 << 45
"""Above the difference of any two scores."""
PRODUCT_BITS = 24
"""Of a stream times a gain, before it is divided by the root."""
NORM_SHIFT = PRODUCT_BITS + MANTISSA_BITS - SCALED_BITS
PRODUCT_MAX = (1 << 42) - 1
"""Of gate times up, in units of 2**-28."""
LOG2_E = 12102203
"""The base-2 logarithm of e, in units of 2**-23."""
CPU_SCORES = 1 << 17
"""Scores of attention at once on a CPU: 1 MiB in float64 stays in its caches."""
VALUE_FACTOR = (1 << SCALE_BITS) // WEIGHT_MAX
"""The factor of `eight_bits` for values: 1 / 127."""


class TransformerBackend(Protocol):
    """A backend: arrays of integers, and these operations. Arrays have `+ - *`."""

    name: str
    scores_at_once: int
    """Scores of attention that a caller should compute at once."""

    def put(self, values: NDArray[Any]) -> BackendArray:
        """Return the same integers as an array of this backend."""
        ...

    def take(self, values: BackendArray) -> Integers:
        """Return the same integers in NumPy, int64."""
        ...

    def operand(self, values: BackendArray) -> BackendArray:
        """Return integers from -128 to 127, in NumPy or in this backend, in the form that `product` takes fastest."""
        ...

    def stored(self, values: BackendArray) -> BackendArray:
        """Return integers from -128 to 127 in the smallest form that `product` and `mix` take."""
        ...

    def indices(self, places: Integers) -> BackendArray:
        """Return places in the form that arrays of this backend take in brackets."""
        ...

    def numbers(self, shape: tuple[int, ...]) -> BackendArray:
        """Return zeros, to be filled with integers."""
        ...

    def operands(self, shape: tuple[int, ...]) -> BackendArray:
        """Return zeros in the form of `stored`, to be filled with such integers."""
        ...

    def product(self, scaled: BackendArray, operand: BackendArray) -> BackendArray:
        """Return exactly `scaled[..., m, k] @ operand[..., n, k].T`.

        `scaled` are integers from -2**15 to 2**15, and k is at most 2**14.
        """
        ...

    def mix(self, shares: BackendArray, operand: BackendArray) -> BackendArray:
        """Return exactly `shares[..., m, k] @ operand[..., k, n]`, with shares from 0 to 2**16 - 1."""
        ...

    def shifted(self, values: BackendArray, shift: BackendArray) -> BackendArray:
        """Return `floor(values * 2**-shift)`; a negative shift multiplies. The shift broadcasts."""
        ...

    def rounded(self, values: BackendArray, shift: BackendArray) -> BackendArray:
        """Return `floor(values * 2**-shift + 1/2)`; a negative shift multiplies. The shift broadcasts."""
        ...

    def rescaled(
        self, values: BackendArray, mantissas: BackendArray, shift: BackendArray, other_shift: BackendArray
    ) -> BackendArray:
        """Return `floor(values * mantissas * 2**-(shift + other_shift) + 1/2)`.

        `mantissas` and `shift` have one shape. Both that and the shape of `other_shift` broadcast.
        """
        ...

    def quotient(self, dividend: BackendArray, divisor: BackendArray) -> BackendArray:
        """Return `floor(dividend / divisor)` of integers below 2**52, with a divisor of at least 1."""
        ...

    def root(self, squares: BackendArray) -> BackendArray:
        """Return the floor of the square root of integers from 0 to 2**52 - 1."""
        ...

    def bit_length(self, values: BackendArray) -> BackendArray:
        """Return the number of binary digits of integers from 0 to 2**53 - 1."""
        ...

    def entries(self, table: BackendArray, places: BackendArray) -> BackendArray:
        """Return `table[places]`."""
        ...

    def joined(self, first: BackendArray, second: BackendArray) -> BackendArray:
        """Return both arrays, one after the other in the last axis."""
        ...

    def clamp(self, values: BackendArray, low: int, high: int) -> BackendArray:
        """Return the values, each limited to [low, high]."""
        ...

    def largest(self, values: BackendArray) -> BackendArray:
        """Return the largest absolute value over the last axis, which keeps length 1."""
        ...

    def peak(self, values: BackendArray) -> BackendArray:
        """Return the maximum over the last axis, which keeps length 1."""
        ...

    def total(self, values: BackendArray) -> BackendArray:
        """Return the sum over the last axis, which keeps length 1."""
        ...


class PlainBackend(PlainIntegers):
    """Plain int64 NumPy without any float: slow, and correct by inspection. Implements `Arithmetic` (see there)."""

    scores_at_once = CPU_SCORES

    def indices(self, places: Integers) -> BackendArray:
        """Return the places as they are."""
        return places

    def stored(self, values: BackendArray) -> BackendArray:
        """Return the values as they are, int64."""
        return values

    def numbers(self, shape: tuple[int, ...]) -> BackendArray:
        """Return int64 zeros."""
        return np.zeros(shape, dtype=np.int64)

    def operands(self, shape: tuple[int, ...]) -> BackendArray:
        """Return int64 zeros."""
        return np.zeros(shape, dtype=np.int64)

    def product(self, scaled: BackendArray, operand: BackendArray) -> BackendArray:
        """Multiply by NumPy's integer loops."""
        return scaled @ operand.swapaxes(-1, -2)

    def mix(self, shares: BackendArray, operand: BackendArray) -> BackendArray:
        """Multiply by NumPy's integer loops."""
        return shares @ operand

    def shifted(self, values: BackendArray, shift: BackendArray) -> BackendArray:
        """Shift right, or left for a negative shift."""
        shift = np.clip(shift, -62, 62)
        return (values << np.maximum(-shift, 0)) >> np.maximum(shift, 0)

    def rounded(self, values: BackendArray, shift: BackendArray) -> BackendArray:
        """Add half of the divisor before the shift."""
        shift = np.clip(shift, -62, 62)
        half = np.left_shift(1, np.maximum(shift, 0)) >> 1
        return ((values << np.maximum(-shift, 0)) + half) >> np.maximum(shift, 0)

    def rescaled(
        self, values: BackendArray, mantissas: BackendArray, shift: BackendArray, other_shift: BackendArray
    ) -> BackendArray:
        """Multiply, then round at the sum of the shifts."""
        return self.rounded(values * mantissas, shift + other_shift)

    def quotient(self, dividend: BackendArray, divisor: BackendArray) -> BackendArray:
        """Divide by NumPy's floor division of integers."""
        return dividend // divisor

    def root(self, squares: BackendArray) -> BackendArray:
        """Find one bit after the other, from 2**25 down."""
        roots = np.zeros_like(squares)
        for bit in range(25, -1, -1):
            tried = roots + (1 << bit)
            roots = np.where(tried * tried <= squares, tried, roots)
        return roots

    def bit_length(self, values: BackendArray) -> BackendArray:
        """Count the powers of two that a value reaches."""
        return np.searchsorted(1 << np.arange(53, dtype=np.int64), values, side="right")

    def entries(self, table: BackendArray, places: BackendArray) -> BackendArray:
        """Index the table."""
        return table[places]

    def joined(self, first: BackendArray, second: BackendArray) -> BackendArray:
        """Return NumPy's concatenation."""
        return np.concatenate([first, second], axis=-1)

    def largest(self, values: BackendArray) -> BackendArray:
        """Return NumPy's maximum of absolute values."""
        return np.abs(values).max(axis=-1, keepdims=True)


@dataclass(frozen=True)
class Scaled:
    """Activations: integers [..., k] of 15 bits and a sign, times two to the exponent [..., 1]."""

    integers: BackendArray
    exponent: BackendArray


@dataclass(frozen=True)
class Linear:
    """A matrix with its scales, in the arrays of a backend."""

    operand: BackendArray  # [n, k]
    mantissas: BackendArray  # [n], of 16 bits
    exponents: BackendArray  # [n]: a row's weight is integer * mantissa * 2**-exponent
    bias: BackendArray | None  # [n], in the unit of the result


def scaled(backend: TransformerBackend, values: BackendArray, unit_bits: int) -> Scaled:
    """Round fixed-point numbers in units of 2**-unit_bits to 15 bits and a sign, with one exponent for each row."""
    # No exponent below the unit: a row of zeros, or a small one, keeps all of its bits.
    shift = backend.clamp(backend.bit_length(backend.largest(values)) - SCALED_BITS, 0, 63)
    return Scaled(backend.rounded(values, shift), shift - unit_bits)


def linear(backend: TransformerBackend, x: Scaled, matrix: Linear, unit_bits: int, limit: int) -> BackendArray:
    """Return `x` times a matrix plus its bias, in units of 2**-unit_bits, saturated at `limit`."""
    # One product for the tokens of all texts: a matrix is read once, however many texts there are.
    flat = x.integers.reshape(-1, x.integers.shape[-1])
    sums = backend.product(flat, matrix.operand).reshape(*x.integers.shape[:-1], -1)
    result = backend.rescaled(sums, matrix.mantissas, matrix.exponents - unit_bits, -x.exponent)
    if matrix.bias is not None:
        result = result + matrix.bias
    return backend.clamp(result, -limit, limit)


@dataclass(frozen=True)
class Gain:
    """A factor for each channel: integers [k] of 15 bits and a sign, in units of 2**-exponent."""

    integers: BackendArray
    exponent: int


def norm(
    backend: TransformerBackend, stream: BackendArray, gain: Gain, epsilon: int, unit_bits: int = STREAM_BITS
) -> Scaled:
    """Return the RMS norm over the last axis, times the gain. `epsilon` is in units of 2**-40."""
    x = scaled(backend, stream, unit_bits)
    inverse, inverse_shift = _inverse_deviation(backend, x, epsilon)
    # The gain comes before the rounding: trained gains are small where a stream is a thousand times larger than
    # elsewhere (arXiv:2402.17762), and the other channels keep their bits.
    product = stream * gain.integers
    shift = backend.bit_length(backend.largest(product)) - PRODUCT_BITS
    integers = backend.rescaled(backend.rounded(product, shift), inverse, NORM_SHIFT, 0)
    # The product has the unit of the stream, the inverse that of `x`.
    return Scaled(integers, shift + NORM_SHIFT + inverse_shift - x.exponent - (40 + unit_bits + gain.exponent))


def _inverse_deviation(backend: TransformerBackend, x: Scaled, epsilon: int) -> tuple[BackendArray, BackendArray]:
    """Return mantissas of 16 bits and shifts: `mantissa * 2**(shift - 40)` is 1 / sqrt(mean square of x.integers)."""
    width = x.integers.shape[-1]
    squares = backend.total(x.integers * x.integers)
    # The mean of squares plus epsilon, `width` times, in the unit of the squares.
    squares = squares + backend.shifted(backend.put(np.array(width * epsilon)), 2 * x.exponent + EPSILON_BITS) + 1
    # Eight more bits make the root precise for a row of small integers.
    root = backend.root(squares * 256)
    inverse = backend.quotient(backend.put(np.array(isqrt(width << 40) << 24)), root)
    shift = backend.bit_length(inverse) - MANTISSA_BITS
    return backend.shifted(inverse, shift), shift


def layer_norm(
    backend: TransformerBackend, stream: BackendArray, gain: Gain, bias: BackendArray, epsilon: int
) -> BackendArray:
    """Return the layer norm over the last axis, times the gain, plus the bias, all in units of 2**-18.

    The stream saturates at CENTRED_MAX before and after. `epsilon` is in units of 2**-40.
    """
    width = stream.shape[-1]
    stream = backend.clamp(stream, -CENTRED_MAX, CENTRED_MAX)
    mean = backend.quotient(backend.total(stream) + width // 2, backend.put(np.array(width)))
    x = scaled(backend, stream - mean, STREAM_BITS)
    inverse, inverse_shift = _inverse_deviation(backend, x, epsilon)
    # No value exceeds the root of the sum of squares, so the result is below 2**18 * sqrt(width) * gain.
    shift = 40 + gain.exponent - STREAM_BITS - inverse_shift
    result = backend.rescaled(x.integers * gain.integers, inverse, 0, shift) + bias
    return backend.clamp(result, -CENTRED_MAX, CENTRED_MAX)


def rotated(backend: TransformerBackend, x: BackendArray, cosines: BackendArray, sines: BackendArray) -> BackendArray:
    """Rotate the pairs (i, i + d/2) of the last axis [d] by angles, given by factors of [d/2]."""
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return backend.joined(
        backend.shifted(first * cosines - second * sines, UNIT_BITS),
        backend.shifted(second * cosines + first * sines, UNIT_BITS),
    )


@dataclass(frozen=True)
class Cached:
    """Keys or values: integers [..., d] of 7 bits and a sign, with a scale `mantissa * 2**exponent` for each row."""

    integers: BackendArray
    mantissas: BackendArray  # [...]
    exponents: BackendArray  # [...]


def key_factor(head_width: int) -> int:
    """Return the factor of `eight_bits` for keys: `log2(e) / sqrt(head_width) / 127` in units of 2**-24."""
    return isqrt((1 << 64) // head_width) * LOG2_E // WEIGHT_MAX >> 31


def eight_bits(backend: TransformerBackend, values: BackendArray, factor: int) -> Cached:
    """Round rows to 8 bits. The scale is the row's largest value times `factor`, in units of 2**-24."""
    largest = backend.clamp(backend.largest(values), 1, VALUE_MAX * 2)
    integers = backend.quotient(values * (2 * WEIGHT_MAX) + largest, largest * 2)
    scale = largest * factor
    shift = backend.bit_length(scale) - MANTISSA_BITS
    mantissas = backend.shifted(scale, shift)
    return Cached(integers, mantissas[..., 0], shift[..., 0] - SCALE_BITS)


def attention(
    backend: TransformerBackend,
    queries: Scaled,
    keys: Cached,
    values: Cached,
    hidden: BackendArray,
    exponentials: BackendArray,
) -> BackendArray:
    """Return the mix of values for each query [..., m, d], in units of 2**-14.

    Keys and values have rows of the last axis but one. `hidden` [..., m, h] is 1 for each of the last h keys that a
    query must not see. The keys' scale includes `log2(e) / sqrt(d)`, so scores are base-2 logarithms.
    """
    sums = backend.product(queries.integers, keys.integers)
    scores = backend.rescaled(
        sums,
        keys.mantissas[..., None, :],
        UNIT_BITS - EXP_STEP_BITS - keys.exponents[..., None, :],
        -queries.exponent,
    )
    scores[..., scores.shape[-1] - hidden.shape[-1] :] -= hidden * HIDDEN_SCORE
    distances = backend.clamp(backend.peak(scores) - scores, 0, EXP_ENTRIES - 1)
    weights = backend.entries(exponentials, distances)
    total = backend.total(weights)
    # A share holds its value's scale, so that values of all keys add up as integers.
    shares = backend.rescaled(weights, values.mantissas[..., None, :], VALUE_SHIFT - values.exponents[..., None, :], 0)
    shift = backend.clamp(backend.bit_length(backend.peak(shares)) - SHARE_BITS, 0, 63)
    sums = backend.mix(backend.shifted(shares, shift), values.integers)
    return backend.shifted(backend.quotient(sums * (1 << 15), total), 15 - VALUE_SHIFT - shift)


def silu_product(backend: TransformerBackend, gate: BackendArray, up: BackendArray, sigmoids: BackendArray) -> Scaled:
    """Return `gate * logistic(gate) * up`, scaled. Both are in units of 2**-14."""
    half = SIGMOID_ENTRIES // 2
    places = backend.clamp(backend.rounded(gate, UNIT_BITS - SIGMOID_STEP_BITS), -half, half - 1) + half
    activated = backend.shifted(gate * backend.entries(sigmoids, places), SIGMOID_BITS)
    return scaled(backend, backend.clamp(activated * up, -PRODUCT_MAX, PRODUCT_MAX), 2 * UNIT_BITS)


def gelu(backend: TransformerBackend, values: BackendArray, normals: BackendArray) -> Scaled:
    """Return `values * normal distribution function(values)`, scaled. The values are in units of 2**-14."""
    half = NORMAL_ENTRIES // 2
    places = backend.clamp(backend.rounded(values, UNIT_BITS - NORMAL_STEP_BITS), -half, half - 1) + half
    return scaled(backend, values * backend.entries(normals, places), UNIT_BITS + NORMAL_BITS)


def fixed(backend: TransformerBackend, x: Scaled, unit_bits: int, limit: int) -> BackendArray:
    """Return scaled activations as fixed-point numbers in units of 2**-unit_bits, saturated at `limit`."""
    return backend.clamp(backend.rounded(x.integers, -x.exponent - unit_bits), -limit, limit)


def added(backend: TransformerBackend, stream: BackendArray, update: BackendArray) -> BackendArray:
    """Add an update to the residual stream, saturating."""
    return backend.clamp(stream + update, -STREAM_MAX, STREAM_MAX)
