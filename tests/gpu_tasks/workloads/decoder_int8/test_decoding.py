"""Requests to answers: alone, side by side and checked by one prefill, all with the same tokens."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder_models import drawn_source, extreme_model
from gpu_tasks.workloads.decoder_int8 import decoding, sampling
from gpu_tasks.workloads.decoder_int8.config import DecoderShape, cache_bytes, pass_bytes
from gpu_tasks.workloads.decoder_int8.decoding import generated, verify_output
from gpu_tasks.workloads.decoder_int8.effort import effort as effort_of
from gpu_tasks.workloads.decoder_int8.effort import request_bytes, room_bytes_max
from gpu_tasks.workloads.decoder_int8.quantising import quantised_decoder
from gpu_tasks.workloads.decoder_int8.request import (
    LENGTH_REACHED,
    STOPPED,
    GenerationOutput,
    GenerationRequest,
)
from gpu_tasks.workloads.decoder_int8.sampling import binary_logarithm, next_token
from gpu_tasks.workloads.decoder_int8.transformer import KeyValueCache, LoadedDecoder, load
from gpu_tasks.workloads.integer_transformer.backends import arithmetic
from gpu_tasks.workloads.integer_transformer.tables import exponential_table
from gpu_tasks.workloads.workload import OutputCheck

SEED = bytes(range(32))
EXPONENTIALS = exponential_table().astype(np.int64)
PLAIN = GenerationRequest((1, 2, 3), 8, 0, 1000, SEED, (), has_logprobs=False)


@pytest.fixture(scope="module")
def model() -> LoadedDecoder:
    return load(arithmetic("numpy"), quantised_decoder(drawn_source()))


def asked(count: int) -> list[GenerationRequest]:
    """Return requests of unlike lengths, temperatures and stops."""
    return [
        GenerationRequest(
            tuple((7 * number + place) % 64 for place in range(1 + number % 9)), 3 + number % 11,
            (0, 700, 2500)[number % 3], (1000, 900, 1)[number % 3], bytes([number]) * 32, ((number % 64,), (5, 6)),
            has_logprobs=number % 2 == 0,
        )
        for number in range(count)
    ]  # fmt: skip


def alone(model: LoadedDecoder, request: GenerationRequest) -> GenerationOutput:
    ((_, output),) = generated(model, [request])
    return output


@pytest.mark.parametrize("lanes", [1, 3, 64])
def test_answers_side_by_side_are_those_of_each_alone(model: LoadedDecoder, lanes: int) -> None:
    requests = asked(20)
    answers = dict(generated(model, requests, lanes))
    assert answers == {place: alone(model, request) for place, request in enumerate(requests)}


def test_a_long_prompt_is_read_in_parts(model: LoadedDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    request = replace(PLAIN, prompt=tuple(range(40)))
    whole = alone(model, request)
    monkeypatch.setattr(decoding, "READ_MAX", 7)
    monkeypatch.setattr(decoding, "LOGIT_ROWS", 2)
    assert alone(model, request) == whole
    assert verify_output(model, request, whole).valid


def test_lanes_fit_the_memory_for_keys_and_values(model: LoadedDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three texts of 30 positions fit."""
    made: list[int] = []

    def noted(model: LoadedDecoder, texts: int, length: int) -> KeyValueCache:
        made.append(texts)
        return KeyValueCache(model, texts, length)

    monkeypatch.setattr(decoding, "KeyValueCache", noted)
    room = pass_bytes(model.shape) + 3 * 30 * cache_bytes(model.shape)
    requests = [replace(PLAIN, prompt=(number, 1), max_tokens=28) for number in range(5)]
    assert len(dict(generated(model, requests, room_bytes=room))) == 5
    assert max(made) == 3


def test_one_long_text_leaves_many_short_ones_their_lanes(
    model: LoadedDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes: list[tuple[int, int]] = []

    class Noted(KeyValueCache):
        def __init__(self, model: LoadedDecoder, texts: int, positions: int) -> None:
            lanes.append((texts, positions))
            super().__init__(model, texts, positions)

    monkeypatch.setattr(decoding, "KeyValueCache", Noted)
    room = pass_bytes(model.shape) + 3 * 64 * cache_bytes(model.shape)
    requests = [replace(PLAIN, prompt=(number,), max_tokens=3) for number in range(20)]
    requests[7] = replace(PLAIN, prompt=tuple(range(60)), max_tokens=4)
    answers = dict(generated(model, requests, room_bytes=room))
    assert answers == {place: alone(model, request) for place, request in enumerate(requests)}
    assert (20 - 1, 4) in lanes


@pytest.mark.parametrize("room_lanes", [1, 3, 7])
def test_no_batch_takes_more_memory_than_it_was_given(room_lanes: int) -> None:
    """Keys and values of this model are large: 69,632 bytes a token, as those of a model of 8 billion weights."""
    shape = DecoderShape(16, 2, 64, 64, 256, 16, 40, 97, 11, False, False, False, (0,))
    large = load(arithmetic("numpy"), extreme_model(shape, 3))
    requests = [replace(PLAIN, prompt=(number,) * (9 + number % 3), max_tokens=3) for number in range(12)]
    most = max(request_bytes(shape, request) for request in requests)
    room = most + (room_lanes - 1) * 14 * cache_bytes(shape)
    assert cache_bytes(shape) == 69_632
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        assert len(dict(generated(large, requests, room_bytes=room))) == 12
        assert tracemalloc.get_traced_memory()[1] - before <= room
    finally:
        tracemalloc.stop()


def test_the_effort_of_a_text_follows_its_lengths() -> None:
    """SmolLM2-135M on one core of an EPYC, in CPU seconds: 16 for 1,024 tokens, 46 for 2,048, and 0.16 for a step.

    The core multiplies 16 billion times a second.
    """
    shape = DecoderShape(576, 30, 9, 3, 64, 1536, 8192, 49152, 11, False, False, False, (2,))
    room = room_bytes_max(shape)

    def seconds(prompt: int, answer: int, count: int = 1) -> float:
        request = replace(PLAIN, prompt=(1,) * prompt, max_tokens=answer)
        return sum(effort_of(shape, [request] * count, room)) / 1.6e10

    assert seconds(1024, 1) == pytest.approx(16, rel=0.3)
    assert seconds(2048, 1) == pytest.approx(46, rel=0.3)
    assert seconds(8191, 1) > 400
    assert seconds(1, 100) == pytest.approx(16, rel=0.3)
    assert seconds(1, 100, 64) < 0.5 * 64 * seconds(1, 100)
    assert seconds(2000, 1, 4096) > 4096 * seconds(2000, 1) * 0.8
    assert effort_of(shape, [], room) == (0, 0)


def test_draws_count_as_effort() -> None:
    """A draw from 49,152 tokens took 2.2 ms, and top-p as much beside it, on the same core: a third of such a batch."""
    shape = DecoderShape(576, 30, 9, 3, 64, 1536, 8192, 49152, 11, False, False, False, (2,))
    request = replace(PLAIN, prompt=(1,), max_tokens=100)
    requests = (request, replace(request, temperature_milli=1), replace(request, temperature_milli=1, top_p_milli=999))
    efforts = [effort_of(shape, [each], 1 << 33) for each in requests]
    greedy, drawn, top_p = ((effort.reading + effort.stepping) / 1.6e10 for effort in efforts)
    assert drawn - greedy == pytest.approx(0.22, rel=0.3)
    assert top_p - drawn == pytest.approx(0.22, rel=0.3)


def test_a_prefill_checks_every_token(model: LoadedDecoder) -> None:
    for request in asked(9):
        output = alone(model, request)
        assert verify_output(model, request, output) == OutputCheck(True, len(output.tokens), None)
        for place in range(len(output.tokens)):
            wrong = (output.tokens[place] + 1) % 64
            tokens = (*output.tokens[:place], wrong, *output.tokens[place + 1 :])
            check = verify_output(model, request, replace(output, tokens=tokens))
            assert (check.valid, check.first_wrong) == (False, place)


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": ()},
        {"finish": STOPPED},
        {"negative_logprobs": ()},
        {"negative_logprobs": (0,) * 8},
    ],
)
def test_an_answer_that_differs_beside_its_tokens_is_wrong(model: LoadedDecoder, change: dict[str, object]) -> None:
    request = replace(PLAIN, has_logprobs=True)
    output = alone(model, request)
    assert output.finish == LENGTH_REACHED
    assert not verify_output(model, request, replace(output, **change)).valid  # type: ignore[arg-type]


def test_an_answer_cut_short_or_drawn_out_is_wrong(model: LoadedDecoder) -> None:
    output = alone(model, PLAIN)
    short = replace(output, tokens=output.tokens[:-1])
    assert not verify_output(model, PLAIN, short).valid
    longer = replace(PLAIN, max_tokens=9)
    assert not verify_output(model, longer, output).valid
    assert not verify_output(model, PLAIN, alone(model, longer)).valid
    unknown = replace(output, tokens=(2**32 - 1, *output.tokens[1:]))
    assert verify_output(model, PLAIN, unknown).first_wrong == 0


def test_an_answer_beyond_its_request_is_wrong_before_it_is_read(model: LoadedDecoder) -> None:
    """It may have more tokens than the model has positions."""
    output = alone(model, PLAIN)
    for times in (2, 100):
        drawn_out = replace(output, tokens=output.tokens * times)
        assert verify_output(model, PLAIN, drawn_out) == OutputCheck(valid=False, recomputed=0, first_wrong=0)


def test_the_first_stop_sequence_ends_the_text(model: LoadedDecoder) -> None:
    tokens = alone(model, PLAIN).tokens
    stopped = alone(model, replace(PLAIN, stops=((63, 62), tokens[2:4])))
    assert stopped.finish == STOPPED
    assert stopped.tokens == tokens[: 4 if tokens[1:3] != tokens[2:4] else 3]
    # A stop sequence of the prompt alone, or half of it, ends nothing.
    assert alone(model, replace(PLAIN, stops=((3, tokens[0]),))).tokens == tokens


def request_of(temperature: int = 1000, top_p: int = 1000, seed: bytes = SEED) -> GenerationRequest:
    return GenerationRequest((1,), 1, temperature, top_p, seed, (), has_logprobs=True)


def test_temperature_0_takes_the_lowest_of_the_likeliest() -> None:
    logits = np.array([5, 9, 9, 3], dtype=np.int64) << 16
    assert next_token(logits, EXPONENTIALS, request_of(0), 0).token == 1


def test_draws_follow_the_probabilities() -> None:
    logits = np.array([2, 1, 0, -40], dtype=np.int64) << 16  # 4 : 2 : 1 : nothing
    drawn = [next_token(logits, EXPONENTIALS, request_of(), place).token for place in range(7000)]
    counts = np.bincount(drawn, minlength=4)
    assert counts[3] == 0
    assert np.allclose(counts[:3] / 7000, [4 / 7, 2 / 7, 1 / 7], atol=0.02)


@pytest.mark.parametrize(("top_p", "kept"), [(1, {0}), (571, {0}), (572, {0, 1}), (857, {0, 1}), (858, {0, 1, 2})])
def test_top_p_keeps_the_likeliest_that_reach_it(top_p: int, kept: set[int]) -> None:
    logits = np.array([2, 1, 0], dtype=np.int64) << 16  # 0.5714, 0.8571, 1
    request = request_of(top_p=top_p)
    assert {next_token(logits, EXPONENTIALS, request, place).token for place in range(300)} == kept


def test_of_equal_tokens_top_p_keeps_the_lower_id() -> None:
    logits = np.zeros(4, dtype=np.int64)
    assert {next_token(logits, EXPONENTIALS, request_of(top_p=500), place).token for place in range(200)} == {0, 1}


def test_log_probabilities_are_those_of_the_softmax() -> None:
    draw = np.random.default_rng(3)
    for _ in range(50):
        logits = np.round(draw.normal(0, 4, 64) * 65536).astype(np.int64)
        drawn = next_token(logits, EXPONENTIALS, request_of(700), 0)
        nats = logits / 65536 * np.log(2)
        exact = np.log(np.exp(nats - nats.max()).sum()) + nats.max() - nats[drawn.token]
        assert abs(drawn.negative_logprob / 65536 - exact) < 1e-3


@given(st.integers(1, 1 << 50))
def test_a_binary_logarithm_is_the_floor(number: int) -> None:
    result = binary_logarithm(number)
    assert abs(result / 65536 - np.log2(number)) < 2 / 65536
    assert binary_logarithm(number + 1) >= result


def test_a_draw_depends_on_seed_and_position() -> None:
    points = {sampling.uniform(bytes([seed]) * 32, place) for seed in range(20) for place in range(20)}
    assert len(points) == 400
    assert all(0 <= point < 1 << 64 for point in points)
