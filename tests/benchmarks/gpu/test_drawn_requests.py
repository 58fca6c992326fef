"""Drawn requests: each is valid, and together they reach all edges."""

from benchmarks.gpu.drawn_requests import CONTEXT, drawn_requests
from gpu_tasks.models.text import BYTE_VOCABULARY
from gpu_tasks.workloads.decoder_int8.request import TEMPERATURE_MAX, decode_request


def test_all_are_requests_of_the_built_in_model_and_reach_the_edges() -> None:
    asked = [decode_request(data, CONTEXT, BYTE_VOCABULARY) for data in drawn_requests(1, 200)]
    assert len(asked) == len(set(drawn_requests(1, 200))) == 204
    assert {0, TEMPERATURE_MAX} <= {request.temperature_milli for request in asked}
    lengths = {len(request.prompt) for request in asked}
    assert (min(lengths), max(lengths)) == (1, CONTEXT - 1)
    assert {1, CONTEXT - 1} <= {request.max_tokens for request in asked}


def test_the_same_seed_draws_the_same_requests() -> None:
    assert drawn_requests(3, 9) == drawn_requests(3, 9) != drawn_requests(4, 9)
