"""The same logits, bit for bit: over backends, splits of a text, batches, padding, and decoding token by token."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder_models import VARIANTS, drawn_source, extreme_model, logits
from gpu_tasks.workloads.decoder_int8.config import DecoderShape, cache_bytes
from gpu_tasks.workloads.decoder_int8.quantising import quantised_decoder
from gpu_tasks.workloads.decoder_int8.transformer import KeyValueCache, LoadedDecoder, forward, load, logits_of
from gpu_tasks.workloads.integer_arrays import Integers
from gpu_tasks.workloads.integer_transformer.backends import arithmetic
from gpu_tasks.workloads.integer_transformer.numpy_backend import FloatBackend
from torch_here import skip_without

LENGTH = 24
TEXTS = np.random.default_rng(7).integers(0, 64, (3, LENGTH))


@cache
def model(variant: str, backend: str = "numpy") -> LoadedDecoder:
    return load(arithmetic(backend), quantised_decoder(drawn_source(5, **VARIANTS[variant])))


@cache
def expected(variant: str) -> Integers:
    return logits(model(variant), TEXTS)


each = pytest.mark.parametrize("variant", VARIANTS)


@each
@pytest.mark.parametrize("backend", ["reference", "torch-cpu", "torch-cuda:0"])
def test_backends_give_the_same_logits(variant: str, backend: str) -> None:
    skip_without(backend)
    assert np.array_equal(logits(model(variant, backend), TEXTS), expected(variant))
    assert len(np.unique(expected(variant))) > 1000


@each
@pytest.mark.parametrize("backend", ["numpy", "reference", "torch-cpu", "torch-cuda:0"])
def test_decoding_token_by_token(variant: str, backend: str) -> None:
    skip_without(backend)
    loaded = model(variant, backend)
    steps = in_chunks(loaded, TEXTS, range(1, LENGTH))
    assert np.array_equal(steps, expected(variant))


def in_chunks(loaded: LoadedDecoder, tokens: Integers, cuts: Any) -> Integers:
    space, ends = KeyValueCache(loaded, len(tokens), tokens.shape[1] + 3), sorted({*cuts, tokens.shape[1]})
    starts = [0, *ends[:-1]]
    parts = [
        logits_of(loaded, forward(loaded, tokens[:, start:end], space, np.full(len(tokens), start)))
        for start, end in zip(starts, ends, strict=True)
    ]
    return np.concatenate(parts, axis=1)


@settings(deadline=None, max_examples=40)
@given(cuts=st.lists(st.integers(1, LENGTH), max_size=6), variant=st.sampled_from([*VARIANTS]))
def test_a_prefill_in_chunks(cuts: list[int], variant: str) -> None:
    assert np.array_equal(in_chunks(model(variant), TEXTS, cuts), expected(variant))


@each
def test_a_text_alone(variant: str) -> None:
    alone = np.concatenate([logits(model(variant), text[None]) for text in TEXTS])
    assert np.array_equal(alone, expected(variant))


@each
def test_the_future_has_no_influence(variant: str) -> None:
    changed = TEXTS.copy()
    changed[:, 11:] = (changed[:, 11:] + 1) % 64
    after = logits(model(variant), changed)
    assert np.array_equal(after[:, :11], expected(variant)[:, :11])
    assert not np.array_equal(after[:, 11:], expected(variant)[:, 11:])


@pytest.mark.parametrize("scores", [1, 7, 50, 300])
@each
def test_attention_in_blocks_of_any_size(variant: str, scores: int) -> None:
    blocks = replace(model(variant), backend=FloatBackend())
    blocks.backend.scores_at_once = scores
    assert np.array_equal(logits(blocks, TEXTS), expected(variant))
    assert np.array_equal(in_chunks(blocks, TEXTS, [5, 6, 17]), expected(variant))


@pytest.mark.parametrize("backend", ["numpy", "reference", "torch-cpu"])
@pytest.mark.parametrize("lanes", [(1, 2, 3), (4, 0, 2), (3, 2, 1)])
def test_texts_in_any_places_of_a_cache(backend: str, lanes: tuple[int, ...]) -> None:
    skip_without(backend)
    loaded, draw = model("grouped", backend), np.random.default_rng(1)
    space = KeyValueCache(loaded, 5, LENGTH)
    forward(loaded, draw.integers(0, 64, (5, LENGTH)), space, np.zeros(5, dtype=np.int64))
    parts = [
        logits_of(loaded, forward(loaded, TEXTS[:, start:end], space, np.full(3, start), lanes))
        for start, end in ((0, 9), (9, 10), (10, LENGTH))
    ]
    assert np.array_equal(np.concatenate(parts, axis=1), expected("grouped"))


def test_keys_and_values_take_the_stated_bytes() -> None:
    space = KeyValueCache(model("grouped"), 3, LENGTH)
    parts = [vars(cached).values() for cached in (*space.keys, *space.values)]
    assert sum(array.nbytes for arrays in parts for array in arrays) == 3 * LENGTH * cache_bytes(model("grouped").shape)


@settings(deadline=None, max_examples=40)
@given(
    lengths=st.lists(st.integers(1, LENGTH), min_size=3, max_size=3), seed=st.integers(0, 99),
    variant=st.sampled_from([*VARIANTS]),
)  # fmt: skip
def test_texts_of_different_lengths(lengths: list[int], seed: int, variant: str) -> None:
    """A batch as a server forms it: prefixes with padding behind, then each text goes on from its own position.

    The cache holds the remains of other texts.
    """
    loaded, draw = model(variant), np.random.default_rng(seed)
    space = KeyValueCache(loaded, 3, LENGTH)
    forward(loaded, draw.integers(0, 64, (3, LENGTH)), space, np.zeros(3, dtype=np.int64))
    padded = TEXTS[:, : max(lengths)].copy()
    for row, length in enumerate(lengths):
        padded[row, length:] = draw.integers(0, 64, max(lengths) - length)
    first = logits_of(loaded, forward(loaded, padded, space, np.zeros(3, dtype=np.int64)))
    starts = np.array(lengths)
    for row, length in enumerate(lengths):
        assert np.array_equal(first[row, :length], expected(variant)[row, :length])
    while starts.max() < LENGTH:
        tokens = np.array([[TEXTS[row, start]] for row, start in enumerate(np.minimum(starts, LENGTH - 1))])
        going = starts < LENGTH
        step = logits_of(loaded, forward(loaded, tokens, space, np.minimum(starts, LENGTH - 1)))
        for row in np.nonzero(going)[0].tolist():
            assert np.array_equal(step[row, 0], expected(variant)[row, starts[row]])
        starts = starts + going


@pytest.mark.parametrize("seed", range(12))
def test_extreme_models_keep_texts_apart(seed: int) -> None:
    """For any model file, another text, a later token or a split changes nothing."""
    shape = DecoderShape(8, 2, 4, 2, 4, 6, 16, 16, 5, True, True, True, ())
    loaded = load(arithmetic("numpy"), extreme_model(shape, seed))
    texts = np.random.default_rng(seed).integers(0, 16, (2, 16))
    whole = logits(loaded, texts)
    assert np.array_equal(logits(loaded, texts[:1, :9])[0], whole[0, :9])
    assert np.array_equal(in_chunks(loaded, texts, range(1, 16, 2)), whole)
