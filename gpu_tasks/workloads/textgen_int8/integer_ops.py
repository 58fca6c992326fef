"""The arithmetic of `textgen-int8`: this file is the specification, and it holds integers only.

Notation: activations are int64 holding at most 8 bits, weights hold 7 bits and a sign, a
multiplier is a fraction in units of 2**-24. Shifts and `//` round towards minus infinity. Every
intermediate value stays below 2**63 and every sum of products below 2**24, so a backend may
take its products in float32 and still be exact; `Reference` takes none.

A backend supplies the few operations of `Arithmetic`; the functions below use nothing else, so
two backends that agree on those give the same bits. Sources: I-BERT (arXiv:2101.01321) for
integer norm and softmax, Jacob et al. (arXiv:1712.05877) for fixed-point rescaling.
"""

from typing import Protocol

import numpy as np

from gpu_tasks.workloads.integer_arrays import BackendArray, IntegerBackend, Integers, PlainIntegers

Ints = Integers
Array = BackendArray

ACTIVATION_MAX = 127
WEIGHT_MAX = 63
MULTIPLIER_BITS = 24
RESIDUAL_MAX = (1 << 21) - 1  # so that 1024 squares sum to less than 2**52, exact in float64
PROBABILITY_BITS = 14
GELU_ENTRIES = 4096
EXP_ENTRIES = 1024  # steps of 1/64: e**0 down to e**-16
EXP_BITS = 24
HIDDEN_SCORE = -(1 << 24)  # below every score
_EXP_STEP = 1135047113432355401  # round(e**(-1/64) * 2**60)


class Arithmetic(IntegerBackend, Protocol):
    """What a backend supplies: arrays of integers, and these operations."""

    lanes: int
    """How many texts it decodes side by side at best."""

    def product(self, left: Array, right: Array) -> Array:
        """Exact `left[..., m, k] @ right[..., n, k].T`, `right` from `operand`."""
        ...

    def root(self, squares: Array) -> Array:
        """Exact floor of the square root of integers from 0 to 2**52 - 1."""
        ...


class Reference(PlainIntegers):
    """Plain int64 NumPy without a float anywhere: slow, and right by inspection."""

    lanes = 32

    def product(self, left: Array, right: Array) -> Array:
        """NumPy multiplies integer matrices with integer loops."""
        return left @ right.swapaxes(-1, -2)

    def root(self, squares: Array) -> Array:
        """One bit after the other, from 2**25 down."""
        found = np.zeros_like(squares)
        for bit in range(25, -1, -1):
            tried = found + (1 << bit)
            found = np.where(tried * tried <= squares, tried, found)
        return found


def exp_table() -> Ints:
    """int64[EXP_ENTRIES]: e**(-i/64) in units of 2**-24, and 0 as the last entry."""
    entries, value = [], 1 << 60
    for _ in range(EXP_ENTRIES - 1):
        entries.append((value + (1 << 35)) >> (60 - EXP_BITS))
        value = value * _EXP_STEP >> 60
    return np.array([*entries, 0], dtype=np.int64)


def rescale(sums: Array, multipliers: Array) -> Array:
    """`sums * multipliers` in units of 2**-24, halves rounded up."""
    return (sums * multipliers + (1 << (MULTIPLIER_BITS - 1))) >> MULTIPLIER_BITS


def linear(use: Arithmetic, x: Array, weight: Array, multipliers: Array) -> Array:
    """`x[..., m, k]` times `weight[n, k]`, rescaled by `multipliers[n]`."""
    return rescale(use.product(x, weight), multipliers)


def activation(use: Arithmetic, values: Array) -> Array:
    """Saturate to 8 bits, symmetrically."""
    return use.clamp(values, -ACTIVATION_MAX, ACTIVATION_MAX)


def add(use: Arithmetic, stream: Array, update: Array) -> Array:
    """Residual connection, saturating."""
    return use.clamp(stream + update, -RESIDUAL_MAX, RESIDUAL_MAX)


def norm(use: Arithmetic, stream: Array, gain: int) -> Array:
    """RMS norm over the last axis to 8 bits: `stream * gain / root(sum of squares)`, rounded."""
    root = use.root(use.total(stream * stream)) + 1
    return activation(use, (stream * gain + (root >> 1)) // root)


def gelu(use: Arithmetic, values: Array, table: Array) -> Array:
    """Look up 12-bit values in the model's own table of int8[4096]."""
    half = GELU_ENTRIES // 2
    return table[use.clamp(values, -half, half - 1) + half]


def probabilities(use: Arithmetic, scores: Array, multipliers: Array, exps: Array, visible: Array | None) -> Array:
    """Softmax over the last axis, in units of 2**-14; `visible` holds 1 where a key may be seen."""
    if visible is not None:
        scores = scores + (1 - visible) * HIDDEN_SCORE
    steps = ((use.peak(scores) - scores) * multipliers) >> MULTIPLIER_BITS
    weights = exps[use.clamp(steps, 0, EXP_ENTRIES - 1)]
    if visible is not None:
        weights = weights * visible
    total = use.total(weights)
    return ((weights << PROBABILITY_BITS) + (total >> 1)) // total
