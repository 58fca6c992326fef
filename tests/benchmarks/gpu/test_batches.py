"""Batched decoding, as `make gpu` measures it, compared between the two backends of every machine."""

import pytest

from benchmarks.gpu import __main__
from benchmarks.gpu.__main__ import batched
from gpu_tasks.workloads.decoder_int8.transformer import LoadedDecoder
from gpu_tasks.workloads.integer_arrays import Integers

pytestmark = pytest.mark.nightly


def test_backends_decode_the_same_tokens_in_batches_and_have_a_rate_each() -> None:
    rates, wrong = batched(("numpy", "reference"), (1, 3))
    assert wrong == []
    assert [sorted(figures) for figures in rates.values()] == [["tokens_per_second_at_1", "tokens_per_second_at_3"]] * 2
    assert all(rate > 0 for figures in rates.values() for rate in figures.values())


def test_a_backend_that_decodes_another_token_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    true = __main__._decoded

    def other(model: LoadedDecoder, prompts: Integers) -> tuple[Integers, float]:
        texts, seconds = true(model, prompts)
        return texts + (model.backend.name == "reference"), seconds

    monkeypatch.setattr(__main__, "_decoded", other)
    _, wrong = batched(("numpy", "reference"), (2,))
    assert wrong == ["batch of 2: reference decodes other tokens than numpy"]
