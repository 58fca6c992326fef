"""Many texts side by side: each result equals that of the text alone, beside any others."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tasks.workloads.registry import open_workload
from gpu_tasks.workloads.textgen_int8 import batching
from gpu_tasks.workloads.textgen_int8.backends import NumpyBackend
from gpu_tasks.workloads.textgen_int8.batching import generated
from gpu_tasks.workloads.textgen_int8.decoding import generate
from gpu_tasks.workloads.textgen_int8.integer_ops import Arithmetic, Array, Ints, Reference
from gpu_tasks.workloads.textgen_int8.request import CompletionRequest, encode_request
from gpu_tasks.workloads.textgen_int8.transformer import Cache, Loaded, forward, forward_each, load
from textgen_models import SMALL, small_model


def loaded(use: Arithmetic) -> Loaded:
    return load(use, small_model())


class NoCast(np.ndarray[Any, Any]):
    """An array that takes only its own type at places named by arrays, as PyTorch's tensors do."""

    def __setitem__(self, places: Any, values: Any) -> None:
        if not all(isinstance(place, slice) for place in places) and values.dtype != self.dtype:
            raise RuntimeError(f"{values.dtype} for {self.dtype}")
        super().__setitem__(places, values)


class LikeTorch(NumpyBackend):
    """NumPy, as strict as PyTorch."""

    def operand(self, values: Array) -> Array:
        return super().operand(values).view(NoCast)


MODELS = [loaded(NumpyBackend()), loaded(Reference()), loaded(LikeTorch())]


@st.composite
def requests(draw: st.DrawFn) -> CompletionRequest:
    prompt = draw(st.binary(max_size=SMALL.context - 1))
    tokens = draw(st.integers(1, SMALL.context - len(prompt)))
    return CompletionRequest(
        prompt, tokens, draw(st.sampled_from([0, 1, 700, 3_000])), draw(st.binary(min_size=32, max_size=32))
    )


@settings(max_examples=settings().max_examples // 5, deadline=None)
@given(st.lists(requests(), max_size=9), st.integers(1, 5), st.sampled_from(range(3)))
def test_batches_give_the_bits_of_single_requests(asked: list[CompletionRequest], lanes: int, which: int) -> None:
    found = dict(generated(MODELS[which], asked, lanes))
    assert [found[place] for place in range(len(asked))] == [generate(MODELS[0], request) for request in asked]


def test_what_ends_early_is_told_before_the_last() -> None:
    """A long text delays none that needs few tokens."""
    long, short = (CompletionRequest(b"x", tokens, 0, bytes(32)) for tokens in (SMALL.context - 1, 1))
    assert [place for place, _ in generated(MODELS[0], [long, short, short], 2)][-1] == 0


class Seen:
    """The requests to passes, and their results."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.read: list[tuple[int, ...]] = []
        """Texts and positions of each pass that reads prompts."""
        self.stepped: list[int] = []
        """Lanes of each step."""
        patch.setattr(batching, "forward", self._forward)
        patch.setattr(batching, "forward_each", self._forward_each)

    def _forward(self, model: Loaded, tokens: Ints, cache: Cache) -> Ints:
        self.read.append(tokens.shape)
        return forward(model, tokens, cache)

    def _forward_each(self, model: Loaded, tokens: Ints, cache: Cache, at: Ints) -> Ints:
        self.stepped.append(len(tokens))
        return forward_each(model, tokens, cache, at)


@settings(max_examples=40, deadline=None)
@given(st.lists(requests(), min_size=1, max_size=20), st.integers(1, 8), st.integers(1, 9))
def test_no_pass_reads_more_than_its_bound(asked: list[CompletionRequest], lanes: int, each: int) -> None:
    """A pass's memory grows with its positions, and strangers write the prompts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batching, "READ_PER_LANE", each)
        seen = Seen(patch)
        assert len(list(generated(MODELS[0], asked, lanes))) == len(asked)
    most = each * min(lanes, len(asked))
    assert all(texts == 1 or texts * length <= most for texts, length in seen.read)
    assert sum(texts for texts, _ in seen.read) == len(asked)


def test_short_prompts_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch)
    asked = [CompletionRequest(b"x" * length, 1, 0, bytes(32)) for length in (7, 7, 7, 7, 1, 1, 1, 1)]
    assert len(list(generated(MODELS[0], asked, 8))) == 8
    assert seen.read == [(8, 8)]


def test_a_text_that_is_left_alone_does_not_pay_for_those_that_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch)
    asked = [CompletionRequest(b"", tokens, 0, bytes(32)) for tokens in (9, 2, 2, 4)]
    expected = [generate(MODELS[0], request) for request in asked]
    assert [len(output) for output in expected] == [9, 2, 2, 4], "none that its model ends"
    assert dict(generated(MODELS[0], asked, 4)) == dict(enumerate(expected))
    assert seen.stepped == [4, 2, 2, 1, 1, 1, 1, 1]


def test_lanes_that_somebody_waits_for_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch)
    asked = [CompletionRequest(b"", 3, 0, bytes(32)) for _ in range(8)]
    assert len(list(generated(MODELS[0], asked, 4))) == 8
    assert seen.stepped == [4, 4, 4, 4]


def test_the_published_model_answers_a_batch_and_refuses_what_is_no_request() -> None:
    workload = open_workload("textgen-int8", "numpy")
    good = [encode_request(CompletionRequest(text, 9, 800, bytes(32))) for text in (b"def f(", b"", b"import os")]
    asked = [good[0], b"no request", good[1], good[2], good[2] + b"x"]
    found = dict(workload.run_many(asked))
    assert [found[place] for place in range(5)] == [
        workload.run(good[0]),
        None,
        workload.run(good[1]),
        workload.run(good[2]),
        None,
    ]
