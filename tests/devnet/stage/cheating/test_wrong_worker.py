"""Workers that compute language models wrongly: real processes that state the published model."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from decoder_models import drawn_source
from devnet.stage.cheating.executors import FEWER_LAYERS, MODEL_CHEATS, wrong_workers
from devnet.stage.cheating.wrong_models import open_wrong_decoder
from gpu_tasks.models.model_store import FOLDER_VARIABLE, ModelStore
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.workloads.decoder_int8.request import REQUEST, GenerationRequest
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.importing import import_model
from gpu_tasks.workloads.model_forms import form_named
from provider_chain import fake_processor
from text_requests import TEXTS

DECODER_REQUEST = REQUEST.encode(GenerationRequest((1, 2, 3), 8, 1000, 1000, bytes([7]) * 32, (), has_logprobs=True))


@pytest.fixture
def decoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkloadForm:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    imported = import_model(replace(drawn_source(), tokenizer=b"{}"))
    ModelStore(tmp_path).create(imported.fields, imported.sections)
    return form_named("decoder-int8:tiny")


def answer_of_worker(cheat: str, form: WorkloadForm, request: bytes) -> bytes:
    async def main() -> bytes:
        hardware: Hardware = fake_processor("cheat")
        executor = wrong_workers(cheat, "numpy", None)(hardware, form)
        await executor.start()
        try:
            assert (executor.workload_id, executor.model_id) == (form.workload_id, form.model_id)
            return (await executor.run(request)).output
        finally:
            await executor.close()

    return asyncio.run(main())


@pytest.mark.parametrize("cheat", MODEL_CHEATS)
def test_a_worker_answers_as_is_computed_beside_it(cheat: str, decoder: WorkloadForm) -> None:
    told = answer_of_worker(cheat, decoder, DECODER_REQUEST)
    assert told == open_wrong_decoder(cheat, "tiny", "numpy").run(DECODER_REQUEST)
    assert told != decoder.open("numpy").run(DECODER_REQUEST)


def test_a_built_in_model_of_fewer_layers_changes_the_text() -> None:
    form = form_named(TEXTS)
    request = form.encode("It was ", 12, {}, bytes(32))
    told = answer_of_worker(FEWER_LAYERS, form, request)
    assert told == open_wrong_decoder(FEWER_LAYERS, "ogpu-bytes", "numpy").run(request)
    assert told != form.open("numpy").run(request)


def test_other_workloads_are_computed_honestly() -> None:
    form = form_named("matmul-hash")
    request = form.encode("1 8 12", 12, {}, bytes(32))
    assert answer_of_worker("four-bits", form, request) == form.open("numpy").run(request)
