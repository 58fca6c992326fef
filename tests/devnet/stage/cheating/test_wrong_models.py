"""Wrong computations of a language model: a check by prefill finds every answer that differs from the right one."""

from functools import cache

import pytest

from decoder_models import drawn_source
from devnet.stage.cheating.executors import MODEL_CHEATS, SWAPPED_MODEL
from devnet.stage.cheating.wrong_models import wrong_decoder
from gpu_tasks.workloads.decoder_int8.model import DecoderModel
from gpu_tasks.workloads.decoder_int8.quantising import quantised_decoder
from gpu_tasks.workloads.decoder_int8.request import REQUEST, GenerationRequest
from gpu_tasks.workloads.decoder_int8.service import DecoderWorkload
from gpu_tasks.workloads.decoder_int8.transformer import load
from gpu_tasks.workloads.integer_transformer.backends import arithmetic
from gpu_tasks.workloads.integer_transformer.conformance import drawn

MODEL_ID = b"m" * 32
SEEDS = 60
PROMPT_TOKENS, ANSWER_TOKENS = 20, 12


@cache
def small_model() -> DecoderModel:
    return quantised_decoder(drawn_source())


@cache
def honest() -> DecoderWorkload:
    return DecoderWorkload(load(arithmetic("numpy"), small_model()), MODEL_ID)


@cache
def asked(temperature_milli: int, *, has_logprobs: bool) -> tuple[bytes, ...]:
    """Return requests, each with a prompt and a seed of its own."""
    prompts = drawn("prompts of cheats", (SEEDS, PROMPT_TOKENS), 0, small_model().shape.vocabulary - 1)
    return tuple(
        REQUEST.encode(
            GenerationRequest(
                tuple(int(token) for token in prompt), ANSWER_TOKENS, temperature_milli, 1000,
                number.to_bytes(32, "little"), (), has_logprobs=has_logprobs,
            )
        )
        for number, prompt in enumerate(prompts, 1)
    )  # fmt: skip


def answers(workload: DecoderWorkload, requests: tuple[bytes, ...]) -> dict[bytes, bytes | None]:
    """Return the answer to each request."""
    return {requests[place]: output for place, output in workload.run_many(requests)}


@cache
def right_answers(requests: tuple[bytes, ...]) -> dict[bytes, bytes | None]:
    return answers(honest(), requests)


@pytest.mark.parametrize("cheat", MODEL_CHEATS)
@pytest.mark.parametrize(("temperature_milli", "has_logprobs"), [(1000, True), (1000, False), (0, True), (0, False)])
def test_a_prefill_finds_every_answer_that_differs(cheat: str, temperature_milli: int, has_logprobs: bool) -> None:
    requests = asked(temperature_milli, has_logprobs=has_logprobs)
    cheating = wrong_decoder(cheat, arithmetic("numpy"), small_model(), MODEL_ID)
    assert (cheating.workload_id, cheating.model_id) == (honest().workload_id, honest().model_id)
    told, right = answers(cheating, requests), right_answers(requests)
    found = [request for request in requests if not honest().verify(request, told[request] or b"").valid]
    assert found == [request for request in requests if told[request] != right[request]]
    # The likeliest token needs no seed.
    is_the_same = cheat == "other-seed" and not temperature_milli
    assert bool(found) != is_the_same
    # Log-probabilities show a wrong model even where its tokens are the right ones.
    assert not has_logprobs or len(found) == (0 if is_the_same else SEEDS)


def test_without_log_probabilities_equal_tokens_are_no_lie() -> None:
    requests = asked(0, has_logprobs=False)
    told = answers(wrong_decoder(SWAPPED_MODEL, arithmetic("numpy"), small_model(), MODEL_ID), requests)
    assert 0 < sum(told[request] == right_answers(requests)[request] for request in requests) < SEEDS
