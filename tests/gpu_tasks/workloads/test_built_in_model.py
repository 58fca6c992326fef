"""The language model in the package: every machine has it by its name and its id, without a folder of models."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from genesis.presets import TEXT_MODEL, TEXT_WORKLOAD
from gpu_tasks.models.model_file import ModelFields, verify
from gpu_tasks.models.model_store import ModelStore, default_folder
from gpu_tasks.models.text import BYTE_VOCABULARY, END_TOKEN
from gpu_tasks.workloads import model_forms, registry
from gpu_tasks.workloads.decoder_int8.request import OUTPUT
from gpu_tasks.workloads.decoder_int8.service import mapped_model
from gpu_tasks.workloads.decoder_int8.transformer import KeyValueCache, forward, load, logits_of
from gpu_tasks.workloads.integer_transformer.numpy_backend import FloatBackend
from text_requests import TEXTS, text_request

ROOT = Path(__file__).parents[3]
HELD_OUT = ROOT / "benchmarks/texts/lincoln_1862.txt"
BYTES_MAX = 2_000_000
BITS_PER_BYTE_MAX = 2.6


@pytest.fixture(autouse=True)
def no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OGPU_MODELS", str(tmp_path / "models"))


def model_path() -> Path:
    return ModelStore(default_folder()).path(TEXT_MODEL)


def test_the_file_is_whole_and_small() -> None:
    header = verify(model_path())
    assert (header.model_id, header.name, header.licence) == (TEXT_MODEL, "ogpu-bytes", "Apache-2.0")
    assert model_path().stat().st_size < BYTES_MAX
    shape = mapped_model(model_path()).shape
    assert (shape.vocabulary, shape.end_tokens) == (BYTE_VOCABULARY, (END_TOKEN,))


def test_it_is_found_by_name_and_by_id_also_beside_a_model_of_the_same_name() -> None:
    ModelStore(default_folder()).create(ModelFields("decoder-int8", "ogpu-bytes", "", "", ""), [])
    for form in (model_forms.form_named(TEXTS), model_forms.form_of(TEXT_WORKLOAD, TEXT_MODEL)):
        assert form is not None
        assert (form.name, form.model_id) == (TEXTS, TEXT_MODEL)
    assert [form.model_id for form in model_forms.forms()].count(TEXT_MODEL) == 1
    assert registry.workload_name(TEXT_WORKLOAD) == "decoder-int8"


def test_a_text_is_asked_shown_and_answered() -> None:
    form = model_forms.form_named(TEXTS)
    request = form.encode("It was — ü", 12, {"temperature": "0"}, bytes(32))
    assert form.show_request(request) == "It was — ü"
    output = form.open("numpy").run(request)
    assert form.show_output(output).encode(errors="replace").isascii()
    assert form.cost(output) == len(OUTPUT.decode(output).tokens) == 12


def test_programs_need_neither_numpy_nor_a_tokenizer_to_name_it() -> None:
    code = f"""
import sys
sys.modules["numpy"] = sys.modules["tokenizers"] = None
from gpu_tasks.workloads.model_forms import form_named
form = form_named({TEXTS!r})
print(form.show_request(form.encode("Once", 12, {{}}, bytes(32))), form.model_facts()["vocabulary"])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "Once 257\n"), done.stderr


def test_it_predicts_a_text_that_it_was_not_trained_on() -> None:
    model = load(FloatBackend(), mapped_model(model_path()))
    tokens = np.frombuffer(HELD_OUT.read_bytes().replace(b"\n", b" ")[:256], dtype=np.uint8).astype(np.int64)
    stream = forward(model, tokens[None, :-1], KeyValueCache(model, 1, 255), np.zeros(1, dtype=np.int64))
    logits = logits_of(model, stream)[0] / (1 << 16) * math.log(2)
    likelihoods = logits - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True))
    likelihoods -= logits.max(-1, keepdims=True)
    bits = -likelihoods[np.arange(255), tokens[1:]].mean() / math.log(2)
    assert bits < BITS_PER_BYTE_MAX


@pytest.mark.parametrize("seed", [bytes(32), b"\x01" * 32])
def test_answers_are_the_same_in_any_batch(seed: bytes) -> None:
    workload = model_forms.open_workload(TEXTS)
    requests = [text_request(b"The sea "[: length + 1], 5 + length, 800, seed) for length in range(7)]
    assert dict(workload.run_many(requests)) == {place: workload.run(each) for place, each in enumerate(requests)}
