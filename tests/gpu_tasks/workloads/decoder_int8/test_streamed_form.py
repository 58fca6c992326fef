"""Answers cut to the tokens that a customer has, and their text piece by piece."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tasks.models.text import END_TOKEN
from gpu_tasks.workloads.decoder_int8.form import DecoderForm
from gpu_tasks.workloads.decoder_int8.request import (
    LENGTH_REACHED,
    OUTPUT,
    REQUEST,
    STOPPED,
    GenerationOutput,
    GenerationRequest,
)
from gpu_tasks.workloads.form import NotStreamedError, RequestError, WorkloadForm
from gpu_tasks.workloads.model_forms import PACKAGE_FORMS, form_named
from gpu_tasks.workloads.streamed import streamed
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError
from text_requests import TEXTS

FORM = form_named(TEXTS)
WORKLOAD = FORM.open("numpy")
PLAIN = GenerationRequest((100, 101), 6, 700, 1000, bytes(32), ((END_TOKEN,), (1, 2)), has_logprobs=False)


@settings(max_examples=20)
@given(st.binary(min_size=1, max_size=8), st.integers(1, 8), st.sampled_from((0, 700, 10_000)), st.booleans())
def test_each_cut_of_a_run_is_the_run_of_its_request(
    prompt: bytes, max_tokens: int, temperature: int, is_stopped: bool
) -> None:
    request = replace(PLAIN, prompt=tuple(prompt), max_tokens=max_tokens, temperature_milli=temperature)
    tokens = OUTPUT.decode(WORKLOAD.run(REQUEST.encode(request))).tokens
    if is_stopped:
        request = replace(request, stops=(tokens[len(tokens) // 2 :][:2],))
        tokens = OUTPUT.decode(WORKLOAD.run(REQUEST.encode(request))).tokens
    encoded = REQUEST.encode(request)
    for count in range(1, len(tokens) + 1):
        cut_request, output = FORM.prefix(encoded, tokens[:count])
        assert WORKLOAD.run(cut_request) == output
        assert (cut_request == encoded) == (count == len(tokens))


@settings(max_examples=8)
@given(st.binary(min_size=1, max_size=8), st.integers(2, 6), st.sampled_from((0, 700, 10_000)), st.integers(0, 3))
def test_an_answer_and_its_continuation_are_one_run(
    prompt: bytes, max_tokens: int, temperature: int, stop_tokens: int
) -> None:
    """At every cut, also at a cut of a continuation, and in the middle of a stop sequence."""
    request = replace(PLAIN, prompt=tuple(prompt), max_tokens=max_tokens, temperature_milli=temperature)
    tokens = OUTPUT.decode(WORKLOAD.run(REQUEST.encode(request))).tokens
    if stop_tokens:
        request = replace(request, stops=(tokens[len(tokens) // 2 :][:stop_tokens],))
    encoded = REQUEST.encode(request)
    whole = OUTPUT.decode(WORKLOAD.run(encoded))
    for count in range(1, len(whole.tokens)):
        rest = FORM.continued(encoded, whole.tokens[:count])
        output = OUTPUT.decode(WORKLOAD.run(rest))
        assert (*whole.tokens[:count], *output.tokens) == whole.tokens
        assert output.finish == whole.finish
        if count > 1:
            assert FORM.continued(FORM.continued(encoded, whole.tokens[:1]), whole.tokens[1:count]) == rest
            continue
        assert WORKLOAD.verify(rest, OUTPUT.encode(output)).valid
        cut_request, cut_output = FORM.prefix(rest, output.tokens[: (len(output.tokens) + 1) // 2])
        assert WORKLOAD.run(cut_request) == cut_output


@pytest.mark.parametrize("tokens", [(), (7,) * 6, (END_TOKEN,), (3, 1, 2), (END_TOKEN, 7)])
def test_an_answer_that_has_ended_is_not_continued(tokens: tuple[int, ...]) -> None:
    with pytest.raises(DecodeError):
        FORM.continued(REQUEST.encode(PLAIN), tokens)


@pytest.mark.parametrize("drawn", [2, 3, 65_535])
def test_a_prompt_has_a_token_of_its_own(drawn: int) -> None:
    with pytest.raises(DecodeError):
        WORKLOAD.run(REQUEST.encode(replace(PLAIN, drawn=drawn)))


@pytest.mark.parametrize(
    ("tokens", "finish", "max_tokens"),
    [
        ((7, 8), LENGTH_REACHED, 2),
        ((7, END_TOKEN), STOPPED, 6),
        ((1, 2), STOPPED, 6),
        ((1, 3, 2, 1, 2), STOPPED, 6),
        ((1, 1, 3, 2, 3, 4), LENGTH_REACHED, 6),
        ((1, 1, 3, 2, 1, 2), STOPPED, 6),
    ],
)
def test_a_cut_answer_ends_where_its_request_says(tokens: tuple[int, ...], finish: int, max_tokens: int) -> None:
    request, output = FORM.prefix(REQUEST.encode(PLAIN), tokens)
    assert REQUEST.decode(request) == replace(PLAIN, max_tokens=max_tokens)
    assert OUTPUT.decode(output) == GenerationOutput(tokens, finish, ())


@pytest.mark.parametrize("tokens", [(), (7,) * 7, (END_TOKEN, 7), (3, 1, 2, 7), (1, 2, END_TOKEN)])
def test_tokens_that_no_answer_begins_with(tokens: tuple[int, ...]) -> None:
    with pytest.raises(DecodeError):
        FORM.prefix(REQUEST.encode(PLAIN), tokens)


@pytest.mark.parametrize(
    "request_", [b"", REQUEST.encode(replace(PLAIN, has_logprobs=True)), REQUEST.encode(replace(PLAIN, prompt=()))]
)
def test_requests_that_cannot_be_cut(request_: bytes) -> None:
    with pytest.raises(DecodeError):
        FORM.prefix(request_, (7,))


def pieces_of(tokens: list[int]) -> list[str]:
    pieces = FORM.pieces()
    return [*(pieces.push(token) for token in tokens), pieces.finish()]


@given(st.lists(st.integers(0, 300), max_size=40), st.lists(st.integers(0, 600), max_size=40), st.text(max_size=20))
def test_the_pieces_are_together_the_whole_text(before: list[int], after: list[int], text: str) -> None:
    tokens = [*before, *text.encode(errors="replace"), *after]
    assert "".join(pieces_of(tokens)) == FORM.show_output(OUTPUT.encode(GenerationOutput(tuple(tokens), 0, ())))


def test_no_piece_holds_half_a_character() -> None:
    assert pieces_of([*"aé🙂".encode(), END_TOKEN]) == ["a", "", "é", "", "", "", "🙂", "", ""]
    assert "".join(pieces_of([97, END_TOKEN, END_TOKEN, 98])) == "ab"


def test_tokens_of_an_unusable_tokenizer_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ImportError("tokenizers")

    assert isinstance(FORM, DecoderForm)
    monkeypatch.setattr("gpu_tasks.workloads.decoder_int8.form.tokenizer_of", missing)
    monkeypatch.delitem(vars(FORM), "_tokenizer", raising=False)
    tokens = [97, 257, 300, 98, END_TOKEN]
    assert "".join(pieces_of(tokens)) == "97 98"
    assert FORM.show_output(OUTPUT.encode(GenerationOutput(tuple(tokens), 0, ()))) == "97 98"


@pytest.mark.parametrize("form", PACKAGE_FORMS, ids=lambda form: form.name)
def test_only_a_streamed_workload_has_lanes_and_cuts(form: WorkloadForm) -> None:
    assert form.is_streamed == (form is FORM)
    if form.is_streamed:
        assert streamed(form.open("numpy")).live(1).begin(REQUEST.encode(PLAIN)) == 0
        return
    with pytest.raises(TypeError):
        streamed(form.open("numpy"))
    standard = partial(form.standard_request, bytes(32), 16, 8)
    for refused in (lambda: form.prefix(b"", ()), lambda: form.continued(b"", ()), form.pieces, standard):
        with pytest.raises(NotStreamedError):
            refused()


@settings(max_examples=10)
@given(st.binary(min_size=32, max_size=32))
def test_a_standard_request_has_exactly_its_tokens(seed: bytes) -> None:
    """They follow from the seed, and the answer reaches its length."""
    encoded = FORM.standard_request(seed, 16, 8)
    request, output = REQUEST.decode(encoded), OUTPUT.decode(WORKLOAD.run(encoded))
    assert (FORM.cost_in(encoded), len(output.tokens), output.finish) == (16, 8, LENGTH_REACHED)
    assert FORM.prefix(encoded, output.tokens) == (encoded, OUTPUT.encode(output))
    assert encoded == FORM.standard_request(seed, 16, 8) != FORM.standard_request(blake2_256(seed), 16, 8)
    assert max(request.prompt) < int(FORM.model_facts()["vocabulary"])
    assert len(set(request.prompt)) > 8


def test_a_standard_request_fits_the_context() -> None:
    context = int(FORM.model_facts()["context_tokens"])
    FORM.standard_request(bytes(32), context - 8, 8)
    with pytest.raises(RequestError):
        FORM.standard_request(bytes(32), context - 7, 8)
