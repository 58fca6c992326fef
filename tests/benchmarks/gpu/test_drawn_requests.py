"""Drawn requests: each is valid, and together they reach all edges."""

from benchmarks.gpu.drawn_requests import drawn_requests, greedy
from gpu_tasks.workloads.textgen_int8.request import TEMPERATURE_MAX, context_length, decode_request


def test_all_are_requests_of_the_published_model_and_reach_its_edges() -> None:
    context = context_length()
    asked = [decode_request(data, context) for data in drawn_requests(1, 200)]
    assert len(asked) == len(set(drawn_requests(1, 200))) == 204
    assert {0, TEMPERATURE_MAX} <= {request.temperature_milli for request in asked}
    lengths = {len(request.prompt) for request in asked}
    assert min(lengths) == 0
    assert max(lengths) == context - 1
    assert {1, context} <= {request.max_tokens for request in asked}


def test_the_same_seed_draws_the_same_requests() -> None:
    assert drawn_requests(3, 9) == drawn_requests(3, 9) != drawn_requests(4, 9)
    assert decode_request(greedy(48), context_length()).temperature_milli == 0
