"""The benchmark of streamed answers, with the built-in model and few tokens."""

import pytest

from benchmarks import live_decoding
from benchmarks.live_decoding import PLACES, measure, requests
from gpu_tasks.workloads.decoder_int8.request import REQUEST


def test_the_host_is_measured_beside_the_engine_and_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("PROMPT", "5"), ("ANSWER", "3"), ("ROUNDS", "1")):
        monkeypatch.setenv(name, size)
    monkeypatch.setattr(live_decoding, "PLACES", (1, 2))
    figures = measure()
    assert {name for name in figures if "_1_" not in name} == {
        name.replace("_1_", "_2_") for name in figures if "_1_" in name
    }
    assert all(figure > 0 for figure in figures.values())
    assert figures["bare_2_first_token_median_ms"] <= figures["bare_2_first_token_last_ms"]


def test_the_requests_differ_and_end_at_their_length() -> None:
    asked = [REQUEST.decode(request) for request in requests(64, 128, max(PLACES))]
    assert len({request.prompt for request in asked}) == max(PLACES)
    assert {(len(request.prompt), request.max_tokens, request.stops) for request in asked} == {(64, 128, ())}
