"""The same bits over backends, over prefill and decoding, and over batches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.workloads.textgen_int8.backends import NumpyBackend, arithmetic
from gpu_tasks.workloads.textgen_int8.decoding import generate
from gpu_tasks.workloads.textgen_int8.integer_ops import Arithmetic, Ints, Reference
from gpu_tasks.workloads.textgen_int8.request import CompletionRequest
from gpu_tasks.workloads.textgen_int8.transformer import Loaded, empty_cache, forward, load
from textgen_models import SMALL, small_model
from torch_here import skip_without

REFERENCE = load(Reference(), small_model())
NUMPY = load(NumpyBackend(), small_model())
TEXT = np.random.default_rng(7).integers(0, 257, (3, SMALL.context))


def prefill(model: Loaded, tokens: Ints) -> Ints:
    return forward(model, tokens, empty_cache(model, len(tokens)))


@pytest.fixture(params=["numpy", "torch-cpu", "torch-cuda:0"])
def other(request: pytest.FixtureRequest) -> Arithmetic:
    skip_without(request.param)
    return arithmetic(request.param)


def test_backend_gives_the_logits_of_the_reference(other: Arithmetic) -> None:
    logits = prefill(load(other, small_model()), TEXT)
    assert np.array_equal(logits, prefill(REFERENCE, TEXT))
    assert len(np.unique(logits)) > 1000, "a model that says nothing compares nothing"


def test_backend_decodes_as_the_reference_prefills(other: Arithmetic) -> None:
    model = load(other, small_model())
    cache = empty_cache(model, len(TEXT))
    steps = [forward(model, TEXT[:, i : i + 1], cache) for i in range(SMALL.context)]
    assert np.array_equal(np.concatenate(steps, axis=1), prefill(REFERENCE, TEXT))


@pytest.mark.parametrize("temperature", [0, 700, 1000, 10_000])
def test_backend_completes_as_the_reference(other: Arithmetic, temperature: int) -> None:
    request = CompletionRequest(b"abc", 40, temperature, b"\x05" * 32)
    assert generate(load(other, small_model()), request) == generate(REFERENCE, request)


@given(st.lists(st.integers(1, SMALL.context), min_size=1, max_size=6), st.integers(0, 2**32))
def test_chunks_do_not_matter(cuts: list[int], seed: int) -> None:
    tokens = np.random.default_rng(seed).integers(0, 257, (1, SMALL.context))
    cache, ends = empty_cache(NUMPY), sorted({*cuts, SMALL.context})
    parts = [forward(NUMPY, tokens[:, cache.length : end], cache) for end in ends]
    assert np.array_equal(np.concatenate(parts, axis=1), prefill(NUMPY, tokens))


def test_a_batch_does_not_matter() -> None:
    alone = np.concatenate([prefill(NUMPY, row[None]) for row in TEXT])
    assert np.array_equal(prefill(NUMPY, TEXT), alone)


def test_the_future_does_not_matter() -> None:
    changed = TEXT.copy()
    changed[:, 20:] = (changed[:, 20:] + 1) % 257
    before, after = prefill(NUMPY, TEXT), prefill(NUMPY, changed)
    assert np.array_equal(before[:, :20], after[:, :20])
    assert not np.array_equal(before[:, 20:], after[:, 20:])


def test_more_than_the_context_is_refused() -> None:
    cache = empty_cache(NUMPY, len(TEXT))
    forward(NUMPY, TEXT, cache)
    with pytest.raises(ValueError, match="context"):
        forward(NUMPY, TEXT[:, :1], cache)
