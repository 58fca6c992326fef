"""A checker accepts exactly the right output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.workloads.textgen_int8.backends import NumpyBackend
from gpu_tasks.workloads.textgen_int8.decoding import generate, trace_of, verify_output
from gpu_tasks.workloads.textgen_int8.request import CompletionRequest
from gpu_tasks.workloads.textgen_int8.transformer import load
from gpu_tasks.workloads.workload import OutputCheck
from textgen_models import SMALL, small_model

MODEL = load(NumpyBackend(), small_model())
REQUEST = CompletionRequest(b"def f(", 24, 900, b"\x09" * 32)
OUTPUT = generate(MODEL, REQUEST)


def test_the_right_output_is_valid() -> None:
    assert len(OUTPUT) == 24
    assert verify_output(MODEL, REQUEST, OUTPUT) == OutputCheck(valid=True, recomputed=24, first_wrong=None)


@given(st.integers(0, 24 * 8 - 1))
def test_one_flipped_bit_is_found_where_it_is(bit: int) -> None:
    wrong = bytearray(OUTPUT)
    wrong[bit // 8] ^= 1 << bit % 8
    verdict = verify_output(MODEL, REQUEST, bytes(wrong))
    assert verdict == OutputCheck(valid=False, recomputed=bit // 8 + 1, first_wrong=bit // 8)


def test_each_place_of_a_right_output_has_a_trace_of_its_own_that_a_machine_cannot_guess() -> None:
    places = [place.to_bytes(32, "little") for place in range(6 + 24)]
    traces = {trace_of(MODEL, REQUEST, OUTPUT, place) for place in places}
    assert len(traces) == len(places), "a position of prompt and completion each"
    assert all(len(trace) == 32 for trace in traces)
    beyond = (6 + 24 + 1).to_bytes(32, "little")
    assert trace_of(MODEL, REQUEST, OUTPUT, beyond) == trace_of(MODEL, REQUEST, OUTPUT, places[0])
    other = load(NumpyBackend(), small_model(seed=2))
    assert trace_of(other, REQUEST, OUTPUT, places[5]) not in traces


@pytest.mark.parametrize("wrong", [b"", OUTPUT[:-1], OUTPUT + b"x", OUTPUT * 9], ids=["none", "short", "long", "huge"])
def test_another_length_is_found(wrong: bytes) -> None:
    assert not verify_output(MODEL, REQUEST, wrong).valid


def test_another_seed_model_or_prompt_is_found() -> None:
    other = load(NumpyBackend(), small_model(seed=2))
    assert not verify_output(other, REQUEST, OUTPUT).valid
    assert not verify_output(MODEL, CompletionRequest(b"def f(", 24, 900, b"\x0a" * 32), OUTPUT).valid
    assert not verify_output(MODEL, CompletionRequest(b"def g(", 24, 900, b"\x09" * 32), OUTPUT).valid


@given(
    prompt=st.binary(max_size=SMALL.context - 1),
    temperature=st.sampled_from([0, 300, 1000, 10_000]),
    seed=st.binary(min_size=32, max_size=32),
    data=st.data(),
)
def test_what_is_generated_is_valid(prompt: bytes, temperature: int, seed: bytes, data: st.DataObject) -> None:
    """Short prompts, full contexts, and texts that the model ends by itself."""
    length = data.draw(st.integers(1, SMALL.context - len(prompt)))
    request = CompletionRequest(prompt, length, temperature, seed)
    assert verify_output(MODEL, request, generate(MODEL, request)).valid


@pytest.mark.parametrize("prompt", [b"", b"x" * (SMALL.context - 1)])
def test_the_whole_context_can_be_used(prompt: bytes) -> None:
    request = CompletionRequest(prompt, SMALL.context - len(prompt), 0, bytes(32))
    output = generate(MODEL, request)
    assert len(trace_of(MODEL, request, output, b"\xff" * 32)) == 32
    assert len(output) == request.max_tokens
    assert verify_output(MODEL, request, output).valid


def test_a_text_that_the_model_ends_is_complete_and_not_to_be_continued() -> None:
    ended = next(
        (request, output)
        for request in (CompletionRequest(b"", 40, 10_000, seed.to_bytes(32, "big")) for seed in range(400))
        if len(output := generate(MODEL, request)) < 40
    )
    request, output = ended
    assert verify_output(MODEL, request, output).valid
    assert not verify_output(MODEL, request, output + b"x").valid
