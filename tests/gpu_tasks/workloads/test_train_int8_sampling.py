"""A trained model continues a text: the same bytes from the same seed, drawn by the shares of its own guesses."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from gpu_tasks.workloads.form import ModelTensor
from gpu_tasks.workloads.model_forms import form_named
from gpu_tasks.workloads.stepwise import states
from gpu_tasks.workloads.train_int8.backends import arithmetic
from gpu_tasks.workloads.train_int8.request import RATE_ONE, REQUEST, TrainingRequest
from gpu_tasks.workloads.train_int8.run import TrainingRun
from gpu_tasks.workloads.train_int8.sampling import continuation
from gpu_tasks.workloads.train_int8.state import decode_state
from gpu_tasks.workloads.train_int8.training_step import NextByteModel
from runtime.encoding.codec import DecodeError
from training_requests import SMALL

FORM = form_named("train-int8")
SEED = bytes(32)
ASKED = TrainingRequest(2, 4, 8, 1, 16, 60, 60, RATE_ONE // 4, SEED, b"abcd" * 400)
"""A text in which each byte follows from the one before."""


def trained(asked: TrainingRequest) -> tuple[bytes, tuple[ModelTensor, ...]]:
    """Return the last state of a run, and its model."""
    state = list(states(TrainingRun(arithmetic("numpy"), asked)))[-1]
    return state, FORM.model_tensors(REQUEST.encode(asked), state)


def test_a_learnt_text_goes_on() -> None:
    _, tensors = trained(replace(ASKED, steps=300, segment=300))
    assert FORM.sample(tensors, b"xxab", 12, SEED) == b"cdabcdabcdab"
    assert FORM.sample(tensors, b"ab", 0, SEED) == b""


def test_the_seed_decides_the_bytes() -> None:
    _, tensors = trained(replace(SMALL, layers=2))
    found = {FORM.sample(tensors, b"def ", 40, bytes([seed]) * 32) for seed in range(5)}
    assert len(found) == 5
    assert FORM.sample(tensors, b"def ", 40, SEED) == FORM.sample(tensors, b"def ", 40, SEED)


def test_bytes_come_as_often_as_the_model_guesses_them() -> None:
    state, tensors = trained(ASKED)
    model = NextByteModel(arithmetic("numpy"), ASKED)
    window = np.array([[*b"ab", 0]], dtype=np.int64)
    powers = model.powers(model.logits(decode_state(ASKED, state[:32], state).weights, window))[0]
    drawn = Counter(continuation(arithmetic("reference"), tensors, b"ab", 1, seed.to_bytes(32)) for seed in range(400))
    for byte in range(256):
        assert drawn[bytes([byte])] / 400 == pytest.approx(powers[byte] / powers.sum(), abs=0.12)


def test_a_short_prompt_begins_a_line() -> None:
    _, tensors = trained(SMALL)
    assert FORM.sample(tensors, b"", 9, SEED) == FORM.sample(tensors, b"\n\n\n", 9, SEED)


def test_another_model_is_refused() -> None:
    _, tensors = trained(SMALL)
    vectors, hidden, *others = tensors
    nan = np.full(hidden.shape, np.nan, "<f4").tobytes()
    for broken in (
        [],
        [vectors],
        [hidden, *others],
        [vectors, replace(hidden, data=nan), *others],
        [vectors, replace(hidden, data=hidden.data[4:]), *others],
        [vectors, replace(hidden, shape=()), *others],
        [vectors, ModelTensor("hidden.1.weight", (5, 6), hidden.data[: 4 * 30]), *others],
    ):
        with pytest.raises(DecodeError):
            FORM.sample(broken, b"def ", 1, SEED)
    assert form_named("render-tile").sample(tensors, b"def ", 1, SEED) is None
