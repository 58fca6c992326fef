"""The parts of the decoder's benchmark that compute figures from figures, and its random model."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import decoder
from decoder_models import logits
from gpu_tasks.workloads.decoder_int8.transformer import load
from gpu_tasks.workloads.integer_transformer.backends import arithmetic


def test_ratios_need_both_rates() -> None:
    assert decoder.ratios({"prefill": 50.0, "decode_64": 30.0}) == {}
    assert decoder.ratios({"prefill": 50.0, "llama_cpp_prefill": 200.0}) == {"prefill_of_llama_cpp": 0.25}


def test_a_decode_rate_leaves_out_the_prompts() -> None:
    assert decoder.decode_rate(lambda count: 100 + count * 0.5) == pytest.approx(64 / 0.5)


def test_all_layers_are_extrapolated_from_two() -> None:
    prefill, decode = decoder.extrapolated(prefill=2.0, layers=0.5, head=1.0).values()
    assert (prefill, decode) == (16.0, 12.8)
    assert decoder.float32_bytes(decoder.LLAMA_1B) == 4 * 1_235_746_816


def test_random_weights_give_varied_logits() -> None:
    shape = replace(decoder.LLAMA_1B, width=64, layers=2, heads=4, key_heads=2, head_width=16, hidden=96, vocabulary=99)
    model = load(arithmetic("numpy"), decoder.random_model(replace(shape, context=32)))
    found = logits(model, np.arange(24).reshape(2, 12))
    assert len(np.unique(found)) > 1000
