"""The arithmetic of `textgen-int8`: this file is the specification, and it uses integers only.

Notation: activations are int64 of at most 8 bits, weights have 7 bits and a sign, a multiplier is a fraction in units
of 2**-24. Shifts and `//` round towards minus infinity. Every intermediate value stays below 2**63 and every sum of
products below 2**24. A backend may therefore compute its products in float32 and still be exact; `Reference` uses no
float.

A backend supplies the few operations of `Arithmetic`, and the functions below use nothing else. Two backends that agree
on those operations give the same bits. Sources: I-BERT (arXiv:2101.01321) for integer norm and softmax, Jacob et al.
(arXiv:1712.05877) for fixed-point rescaling.
"""

from typing import Protocol

import numpy as np

from gpu_tasks.workloads.integer_arrays import BackendArray, IntegerBackend, Integers, PlainIntegers

Ints = Integers
Array = BackendArray

ACTIVATION_MAX = 127
WEIGHT_MAX = 63
MULTIPLIER_BITS = 24
RESIDUAL_MAX = (1 << 21) - 1  # 1024 squares then sum to less than 2**52, exact in float64
PROBABILITY_BITS = 14
GELU_ENTRIES = 4096
EXP_ENTRIES = 1024  # Steps of 1/64: e**0 down to e**-16
EXP_BITS = 24
HIDDEN_SCORE = -(1 << 24)  # Below every score
_EXP_STEP = 1135047113432355401  # round(e**(-1/64) * 2**60)


class Arithmetic(IntegerBackend, Protocol):
    """A backend: arrays of integers, and these operations."""

    lanes: int
    """The best number of texts to decode side by side."""

    def product(self, left: Array, right: Array) -> Array:
        """Return exactly `left[..., m, k] @ right[..., n, k].T`, with `right` from `operand`."""
        ...

    def root(self, squares: Array) -> Array:
        """Return the exact floor of the square root of integers from 0 to 2**52 - 1."""
        ...


class Reference(PlainIntegers):
    """Plain int64 NumPy without any float: slow, and correct by inspection."""

    lanes = 32

    def product(self, left: Array, right: Array) -> Array:
        """Multiply by NumPy's integer loops."""
        return left @ right.swapaxes(-1, -2)

    def root(self, squares: Array) -> Array:
        """Find one bit after the other, from 2**25 down."""
        roots = np.zeros_like(squares)
        for bit in range(25, -1, -1):
            tried = roots + (1 << bit)
            roots = np.where(tried * tried <= squares, tried, roots)
        return roots


def exp_table() -> Ints:
    """Return int64[EXP_ENTRIES]: e**(-i/64) in units of 2**-24, and 0 as the last entry."""
    entries, value = [], 1 << 60
    for _ in range(EXP_ENTRIES - 1):
        entries.append((value + (1 << 35)) >> (60 - EXP_BITS))
        value = value * _EXP_STEP >> 60
    return np.array([*entries, 0], dtype=np.int64)


def rescale(sums: Array, multipliers: Array) -> Array:
    """Return `sums * multipliers` in units of 2**-24, halves rounded up."""
    return (sums * multipliers + (1 << (MULTIPLIER_BITS - 1))) >> MULTIPLIER_BITS


def linear(backend: Arithmetic, x: Array, weight: Array, multipliers: Array) -> Array:
    """Return `x[..., m, k]` times `weight[n, k]`, rescaled by `multipliers[n]`."""
    return rescale(backend.product(x, weight), multipliers)


def activation(backend: Arithmetic, values: Array) -> Array:
    """Saturate to 8 bits, symmetrically."""
    return backend.clamp(values, -ACTIVATION_MAX, ACTIVATION_MAX)


def add(backend: Arithmetic, stream: Array, update: Array) -> Array:
    """Add a residual connection, saturating."""
    return backend.clamp(stream + update, -RESIDUAL_MAX, RESIDUAL_MAX)


def norm(backend: Arithmetic, stream: Array, gain: int) -> Array:
    """Return the RMS norm over the last axis to 8 bits: `stream * gain / root(sum of squares)`, rounded."""
    # One more than the root, so that a stream of zeros is not divided by zero.
    root = backend.root(backend.total(stream * stream)) + 1
    return activation(backend, (stream * gain + (root >> 1)) // root)


def gelu(backend: Arithmetic, values: Array, table: Array) -> Array:
    """Look up 12-bit values in the model's own table of int8[4096]."""
    half = GELU_ENTRIES // 2
    return table[backend.clamp(values, -half, half - 1) + half]


def probabilities(backend: Arithmetic, scores: Array, multipliers: Array, exps: Array, visible: Array | None) -> Array:
    """Return the softmax over the last axis, in units of 2**-14; `visible` is 1 for each key that takes part."""
    if visible is not None:
        scores = scores + (1 - visible) * HIDDEN_SCORE
    steps = ((backend.peak(scores) - scores) * multipliers) >> MULTIPLIER_BITS
    weights = exps[backend.clamp(steps, 0, EXP_ENTRIES - 1)]
    # With a small multiplier, a hidden key could still get a weight from the table.
    if visible is not None:
        weights = weights * visible
    total = backend.total(weights)
    return ((weights << PROBABILITY_BITS) + (total >> 1)) // total
