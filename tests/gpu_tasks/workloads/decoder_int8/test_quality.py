"""The report of `ogpu model import`: a float model and its integer model read the same text."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from click.testing import CliRunner

from gpu_tasks.client.cli import main
from gpu_tasks.models.model_file import TENSORS
from gpu_tasks.models.sources.open_source import open_source
from gpu_tasks.models.sources.source_model import SourceModel
from gpu_tasks.workloads.decoder_int8 import quality
from gpu_tasks.workloads.decoder_int8.float_decoder import FloatDecoder, log_probabilities
from gpu_tasks.workloads.decoder_int8.quality import LEFT_OUT, compared, quality_report
from gpu_tasks.workloads.decoder_int8.quantising import quantised_decoder
from gpu_tasks.workloads.decoder_int8.transformer import KeyValueCache, forward, load, logits_of
from gpu_tasks.workloads.importing import ImportedModel, import_model
from gpu_tasks.workloads.integer_transformer.arithmetic import LOGIT_BITS, PlainBackend
from tiny_models import LLAMA, dequantised, quantised, random_tensors, write_folder, write_gguf

SCALED = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
VARIANTS: dict[str, dict[str, object]] = {
    "tied head": {},
    "free head": {"tie_word_embeddings": False},
    "biases": {"attention_bias": True},
    "head norm": {"architectures": ["Qwen3ForCausalLM"], "head_dim": 12},
    "scaled positions": {"rope_scaling": SCALED},
}
Q8_0 = gguf.GGMLQuantizationType.Q8_0


def tiny_source(folder: Path, *, seed: int = 1, **changes: object) -> SourceModel:
    """Write a folder and open it. Its weights give every layer a part in the result."""
    raw = LLAMA | changes
    tensors = random_tensors(raw, seed)
    tensors.pop("rope_freq_factors", None)
    return open_source(write_folder(folder / "tiny", raw, tensors))


def tensors_of(imported: ImportedModel) -> bytes:
    content: Any = dict(imported.sections)[TENSORS]
    return b"".join(content)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_both_models_are_the_ones_that_run(tmp_path: Path, changes: Mapping[str, Any]) -> None:
    source = tiny_source(tmp_path, **changes)
    model = quantised_decoder(source)
    tokens = np.random.default_rng(3).integers(0, model.shape.vocabulary, 40).tolist()
    found = compared(FloatDecoder(source), model, tokens)

    reference = load(PlainBackend(), model)
    stream = forward(reference, np.array([tokens]), KeyValueCache(reference, 1, 40), np.array([0]))
    integers = log_probabilities(logits_of(reference, stream)[0] * (np.log(2) / (1 << LOGIT_BITS)))[:-1]
    floats = FloatDecoder(source).log_probabilities(tokens)[:-1]
    places = np.arange(39), np.array(tokens[1:])
    assert found.tokens == 40
    assert found.float_perplexity == pytest.approx(np.exp(-floats[places].mean()))
    assert found.integer_perplexity == pytest.approx(np.exp(-integers[places].mean()))
    assert found.mean_divergence == pytest.approx((np.exp(floats) * (floats - integers)).sum(axis=1).mean())
    assert found.same_top_share == (floats.argmax(axis=1) == integers.argmax(axis=1)).mean()
    assert abs(found.perplexity_change) < 0.03
    assert 0 < found.mean_divergence < 0.001


def test_a_model_of_other_weights_shows(tmp_path: Path) -> None:
    source, other = tiny_source(tmp_path / "a"), tiny_source(tmp_path / "b", seed=2)
    found = compared(FloatDecoder(source), quantised_decoder(other), range(40))
    assert found.mean_divergence > 0.05
    assert found.same_top_share < 0.5


def test_a_pass_in_parts_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tiny_source(tmp_path)
    model = quantised_decoder(source)
    whole = compared(FloatDecoder(source), model, range(40))
    monkeypatch.setattr(quality, "READ_MAX", 7)
    assert compared(FloatDecoder(source), model, range(40)) == whole


def test_the_report_changes_no_section(tmp_path: Path) -> None:
    source, steps = tiny_source(tmp_path), []
    reported = import_model(source, lambda *step: steps.append(step))
    bare = import_model(source, has_report=False)
    assert bare.report == {}
    assert set(reported.report) == {
        "text_tokens", "float_perplexity", "integer_perplexity", "perplexity_change_percent", "mean_kl_divergence",
        "same_top_token_percent",
    }  # fmt: skip
    assert reported.report["text_tokens"] == LLAMA["max_position_embeddings"]
    assert steps == [(done, 6) for done in range(1, 7)], "two layers, quantised and passed by both models"
    assert reported.fields == bare.fields
    assert reported.sections[:-1] == bare.sections[:-1]
    assert tensors_of(reported) == tensors_of(bare)


def test_a_report_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tiny_source(tmp_path)
    model = quantised_decoder(source)
    assert set(quality_report(replace(source, tokenizer=b"{}"), model)) == {LEFT_OUT}
    assert set(quality_report(source, replace(model, shape=replace(model.shape, context=1)))) == {LEFT_OUT}
    monkeypatch.setattr(quality, "WEIGHTS_MAX", 1000)
    assert set(quality_report(source, model, pytest.fail)) == {LEFT_OUT}


def test_floats_that_overflow_leave_the_report_out(tmp_path: Path) -> None:
    source = tiny_source(tmp_path)
    model = quantised_decoder(source)
    name = "model.layers.0.mlp.down_proj.weight"
    tensors = dict(source.tensors) | {name: np.full_like(source.tensors[name], 3e38)}
    assert set(quality_report(replace(source, tensors=tensors), model)) == {LEFT_OUT}  # type: ignore[arg-type]


def test_a_folder_and_a_gguf_of_the_same_floats_give_the_same_tensors(tmp_path: Path) -> None:
    stored = quantised(random_tensors(LLAMA), Q8_0)
    file = open_source(write_gguf(tmp_path / "tiny.gguf", LLAMA, stored, Q8_0))
    folder = open_source(write_folder(tmp_path / "tiny", LLAMA, dequantised(stored, Q8_0)))
    assert tensors_of(import_model(file, has_report=False)) == tensors_of(import_model(folder, has_report=False))


def test_the_command_shows_the_report_or_skips_it(tmp_path: Path) -> None:
    tiny_source(tmp_path)

    def imported(*words: str) -> Any:
        store = ("--models", str(tmp_path / "models"))
        answer = CliRunner().invoke(main, ["--json", "model", "import", str(tmp_path / "tiny"), *store, *words])
        assert answer.exit_code == 0, answer.output
        return json.loads(answer.stdout)

    facts, bare = imported(), imported("--no-report")
    assert facts["float_perplexity"] > 1
    assert set(facts) - set(bare) >= {"perplexity_change_percent", "mean_kl_divergence", "same_top_token_percent"}
    assert facts["id"] == bare["id"]
    assert len(list((tmp_path / "models").glob("*.ogpu-model"))) == 1
