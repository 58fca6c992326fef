"""Tests that a backend's arithmetic is exact where floats come closest to their limit, in every shape of a model.

Each case has the largest sums of a limb, just below 2**24. The product is compared with integers number by number. The
test finds a matrix unit that rounds an operand, keeps a sum in fewer bits, or overflows because of its order of
additions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.built_in import loaded_on
from gpu_tasks.workloads.decoder_int8.transformer import KeyValueCache, LoadedDecoder, forward, logits_of
from gpu_tasks.workloads.integer_arrays import Integers
from gpu_tasks.workloads.integer_transformer.arithmetic import SCALED_BITS, SHARE_BITS, WEIGHT_MAX, TransformerBackend
from gpu_tasks.workloads.integer_transformer.numpy_backend import COLUMNS_A_PRODUCT, KEYS_A_PRODUCT, LIMB

SCALED_MAX = 1 << SCALED_BITS
LARGEST_LIMBS = LIMB // 2 * (LIMB - 1)
"""A scaled integer whose limbs are 128 and -128."""
SHARE_MAX = (1 << SHARE_BITS) - 1
ROWS = (1, 2, 7, 16, 33, 128, 256)
"""Lengths of a prefill. Length 1 is decoding, for which libraries have separate kernels."""
BATCHES = (1, 2, 7, 32)
TEXT = 128
"""Tokens of a text."""
SEED = 2026


@dataclass(frozen=True, slots=True)
class Product:
    """A product `left[..., m, k] @ right[..., n, k].T`, or for a mix `left[..., m, k] @ right[..., k, n]`."""

    label: str
    left: Integers
    right: Integers
    is_mix: bool = False


def products() -> Iterator[Product]:
    """Yield all cases: every kind of operand with every number of rows, from a fixed seed."""
    chance = np.random.default_rng(SEED)
    for rows in ROWS:
        for inner, outer in ((192, 320), (576, 257), (COLUMNS_A_PRODUCT, 896), (COLUMNS_A_PRODUCT * 2 + 1, 192)):
            signs = chance.choice([-1, 1], (rows, inner))
            left = LARGEST_LIMBS * signs
            left[0, 0] -= signs[0, 0]  # an odd sum, so that the loss of the last bit is visible
            weights = WEIGHT_MAX * chance.choice([-1, 1], (outer, inner))
            weights[0], weights[1] = WEIGHT_MAX * signs[0], -WEIGHT_MAX * signs[0]  # no terms cancel: the largest sums
            yield Product(f"weights {rows}x{inner}x{outer}", left, weights)
            left = chance.integers(-SCALED_MAX, SCALED_MAX + 1, (rows, inner))
            right = chance.integers(-WEIGHT_MAX, WEIGHT_MAX + 1, (outer, inner))
            yield Product(f"random {rows}x{inner}x{outer}", left, right)
        for keys in (rows, KEYS_A_PRODUCT, KEYS_A_PRODUCT * 2 + 1):
            yield _mixed(chance, rows, keys)


def _mixed(chance: np.random.Generator, rows: int, keys: int) -> Product:
    """Return a product of shares and values. In the first row and column all terms are the largest."""
    shares = chance.integers(0, SHARE_MAX + 1, (2, 4, rows, keys))
    shares[..., 0, :] = SHARE_MAX
    values = WEIGHT_MAX * chance.choice([-1, 1], (2, 4, keys, 32))
    values[..., 0] = WEIGHT_MAX
    return Product(f"shares {rows}x{keys}x32", shares, values, is_mix=True)


def wrong_products(use: TransformerBackend) -> Iterator[str]:
    """Return the labels of the cases in which the backend's product differs from the integer product."""
    return (case.label for case in products() if not np.array_equal(_product(use, case), _integers(case)))


def _product(use: TransformerBackend, case: Product) -> Integers:
    multiply = use.mix if case.is_mix else use.product
    return use.take(multiply(use.put(case.left), use.operand(case.right)))


def _integers(case: Product) -> Integers:
    """Return the product computed in float64, whose 53 bits hold every such sum.

    NumPy's integer product takes minutes.
    """
    right = case.right if case.is_mix else case.right.swapaxes(-1, -2)
    exact: Integers = np.matmul(case.left.astype(np.float64), right.astype(np.float64))
    return exact.astype(np.int64)


def wrong_batches(use: TransformerBackend, against: TransformerBackend, batches: Sequence[int] = BATCHES) -> list[str]:
    """Return the batches whose logits differ between two backends, or between prefill and decoding token by token."""
    ours, theirs = loaded_on(use), loaded_on(against)
    chance = np.random.default_rng(SEED)
    wrong = []
    for batch in batches:
        texts = chance.integers(0, ours.shape.vocabulary, (batch, TEXT))
        expected = logits(theirs, texts, TEXT)
        if not np.array_equal(logits(ours, texts, TEXT), expected):
            wrong.append(f"prefill of {batch}")
        if not np.array_equal(logits(ours, texts[:, :16], 1), expected[:, :16]):
            wrong.append(f"decoding of {batch}")
    return wrong


def logits(model: LoadedDecoder, texts: Integers, step: int) -> Integers:
    """Return the logits of all positions, read `step` tokens at a time."""
    cache = KeyValueCache(model, *texts.shape)
    starts = range(0, texts.shape[1], step)
    parts = [forward(model, texts[:, start : start + step], cache, np.full(len(texts), start)) for start in starts]
    return np.concatenate([logits_of(model, part) for part in parts], axis=1)
