"""Tests that a backend's arithmetic is exact where floats come closest to their limit, in every shape of a model.

Each case has the largest sums that the model's format permits, just below 2**24, and operands with the most bits. The
product is compared with int64 number by number. The test finds a matrix unit that rounds an operand, keeps a sum in
fewer bits, or overflows because of its order of additions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_tasks.workloads.textgen_int8.integer_ops import ACTIVATION_MAX, PROBABILITY_BITS, WEIGHT_MAX, Arithmetic, Ints
from gpu_tasks.workloads.textgen_int8.model import (
    CONTEXT_MAX,
    HIDDEN_MAX,
    VOCABULARY,
    WIDTH_MAX,
    decode_model,
)
from gpu_tasks.workloads.textgen_int8.request import model_file
from gpu_tasks.workloads.textgen_int8.transformer import Loaded, empty_cache, forward, load

EXACT_BELOW = 1 << 24
ROWS = (1, 2, 7, 16, 33, 128, 256)
"""Lengths of a prefill. Length 1 is decoding, for which libraries have separate kernels."""
BATCHES = (1, 2, 7, 32)
SEED = 2026


@dataclass(frozen=True, slots=True)
class Product:
    """A product `left[..., m, k] @ right[..., n, k].T`. Its sums of absolute products stay below `EXACT_BELOW`."""

    label: str
    left: Ints
    right: Ints


def products() -> Iterator[Product]:
    """Yield all cases: every kind of operand with every number of rows, from a fixed seed."""
    chance = np.random.default_rng(SEED)
    for rows in ROWS:
        for inner, outer in ((256, 768), (256, 256), (256, VOCABULARY), (WIDTH_MAX, 256), (HIDDEN_MAX, 1024)):
            signs = chance.choice([-1, 1], (rows, inner))
            left = ACTIVATION_MAX * signs
            left[0, 0] -= signs[0, 0]  # an odd sum, so that the loss of the last bit is visible
            weights = WEIGHT_MAX * chance.choice([-1, 1], (outer, inner))
            weights[0], weights[1] = WEIGHT_MAX * signs[0], -WEIGHT_MAX * signs[0]  # no terms cancel: the largest sums
            yield Product(f"weights {rows}x{inner}x{outer}", left, weights)
            left = chance.integers(-ACTIVATION_MAX, ACTIVATION_MAX + 1, (rows, inner))
            right = chance.integers(-WEIGHT_MAX, WEIGHT_MAX + 1, (outer, inner))
            yield Product(f"random {rows}x{inner}x{outer}", left, right)
        for context in (rows, 256, CONTEXT_MAX):
            yield _scores(chance, rows, context)
            yield _mixed(chance, rows, context)


def _scores(chance: np.random.Generator, rows: int, context: int) -> Product:
    """Return a product of queries and keys at a head's largest depth. In the first row all terms have one sign."""
    query = ACTIVATION_MAX * chance.choice([-1, 1], (2, 4, rows, WIDTH_MAX))
    key = ACTIVATION_MAX * chance.choice([-1, 1], (2, 4, context, WIDTH_MAX))
    key[..., 0, :] = query[..., 0, :]
    return Product(f"scores {rows}x{WIDTH_MAX}x{context}", query, key)


def _mixed(chance: np.random.Generator, rows: int, context: int) -> Product:
    """Return a product of shares and values.

    The odd 14-bit shares sum to about 2**14, so a lost last bit is visible.
    """
    raw = chance.integers(0, 1 << PROBABILITY_BITS, (2, 4, rows, context)) ** 3
    shares = (raw << PROBABILITY_BITS) // raw.sum(axis=-1, keepdims=True).clip(1) | 1
    values = ACTIVATION_MAX * chance.choice([-1, 1], (2, 4, 64, context))
    values[..., 0, :] = ACTIVATION_MAX
    return Product(f"shares {rows}x{context}x64", shares, values)


def wrong_products(use: Arithmetic) -> Iterator[str]:
    """Return the labels of the cases in which the backend's product differs from the integer product."""
    return (case.label for case in products() if not np.array_equal(_product(use, case), _integers(case)))


def _product(use: Arithmetic, case: Product) -> Ints:
    return use.take(use.product(use.put(case.left), use.operand(use.put(case.right))))


def _integers(case: Product) -> Ints:
    """Return the product computed in float64, whose 53 bits hold every such sum.

    NumPy's integer product takes minutes.
    """
    exact: Ints = np.matmul(case.left.astype(np.float64), case.right.swapaxes(-1, -2).astype(np.float64))
    return exact.astype(np.int64)


def wrong_batches(use: Arithmetic, against: Arithmetic, batches: Sequence[int] = BATCHES) -> list[str]:
    """Return the batches whose logits differ between two backends, or between prefill and decoding token by token."""
    model = decode_model(model_file())
    ours, theirs = load(use, model), load(against, model)
    chance = np.random.default_rng(SEED)
    wrong = []
    for batch in batches:
        texts = chance.integers(0, VOCABULARY, (batch, model.shape.context))
        expected = forward(theirs, texts, empty_cache(theirs, batch))
        if not np.array_equal(forward(ours, texts, empty_cache(ours, batch)), expected):
            wrong.append(f"prefill of {batch}")
        if not np.array_equal(_decoded(ours, texts[:, :16]), expected[:, :16]):
            wrong.append(f"decoding of {batch}")
    return wrong


def _decoded(model: Loaded, texts: Ints) -> Ints:
    """Return the logits of all positions, computed one token after the other."""
    cache = empty_cache(model, len(texts))
    steps = [forward(model, texts[:, place : place + 1], cache) for place in range(texts.shape[1])]
    return np.concatenate(steps, axis=1)
