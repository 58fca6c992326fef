"""A trained model is exported as the run multiplies it, and NumPy and safetensors' rules read it."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from error_codes import ended_code, raises_code
from gpu_tasks.client.commands import task_runs
from gpu_tasks.client.tasks.exports import (
    ExportError,
    exported,
    npz_file,
    read_safetensors,
    require_form,
    safetensors_file,
)
from gpu_tasks.client.tasks.results import FetchedRun
from gpu_tasks.data.run_states import RunState
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.form import ModelTensor
from gpu_tasks.workloads.model_forms import form_named
from gpu_tasks.workloads.stepwise import states
from gpu_tasks.workloads.train_int8.backends import arithmetic
from gpu_tasks.workloads.train_int8.request import REQUEST, TrainingRequest
from gpu_tasks.workloads.train_int8.run import TrainingRun
from planted_state import chain_with
from planted_tasks import MILESTONES, PlantedTask, run_blob
from runtime.encoding.codec import DecodeError
from task_customer import OF_BOB, ogpu
from training_requests import SMALL, small_requests
from wallet_runner import answer

FORM = form_named("train-int8")
UNITS = {True: 2**5, False: 2**12}
"""Parts of one: of the vectors of bytes, of other weights."""


def trained(asked: TrainingRequest) -> tuple[bytes, bytes, bytes]:
    """A request, its last state, and the model as the run multiplies it."""
    run = TrainingRun(arithmetic("numpy"), asked)
    last = list(states(run))[-1]
    return REQUEST.encode(asked), last, run.model(last)


@given(small_requests)
def test_the_floats_are_the_weights_as_they_multiply(asked: TrainingRequest) -> None:
    request, state, model = trained(replace(asked, steps=3, segment=3))
    tensors = FORM.model_tensors(request, state)
    assert (tensors[0].name, tensors[-1].name) == ("embedding", "output.bias")
    multiplied = np.frombuffer(model, "<i2").astype(np.float64)
    place = 0
    for each in tensors:
        values = np.frombuffer(each.data, "<f4").astype(np.float64)
        assert values.size == np.prod(each.shape)
        part = multiplied[place : place + values.size] / UNITS[each.name == "embedding"]
        assert np.array_equal(values, part), each.name
        place += values.size
    assert place == multiplied.size


def test_a_state_of_another_size_is_refused() -> None:
    request, state, _ = trained(SMALL)
    with pytest.raises(DecodeError):
        FORM.model_tensors(request, state[:-8])
    assert form_named("render-tile").model_tensors(b"", b"") == ()


TENSORS = (ModelTensor("a", (2, 3), np.arange(6, dtype="<f4").tobytes()), ModelTensor("b.bias", (1,), b"\0\0\x80\x3f"))


def test_numpy_reads_an_npz() -> None:
    with np.load(BytesIO(npz_file(TENSORS, {"workload": "x"}))) as found:
        assert sorted(found) == ["a", "b.bias"]
        assert found["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert (found["b.bias"].tolist(), found["a"].dtype) == ([1], np.float32)
    with zipfile.ZipFile(BytesIO(npz_file(TENSORS, {"workload": "x"}))) as archive:
        assert json.loads(archive.comment) == {"workload": "x"}


def test_a_safetensors_file_is_as_its_specification_says() -> None:
    data = safetensors_file(TENSORS, {"workload": "x"})
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert (length % 8, header.pop("__metadata__")) == (0, {"workload": "x"})
    assert header["a"] == {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    assert header["b.bias"] == {"dtype": "F32", "shape": [1], "data_offsets": [24, 28]}
    assert len(data) == 8 + length + 28
    assert np.frombuffer(data, "<f4", offset=8 + length).tolist() == [0, 1, 2, 3, 4, 5, 1]


def test_the_ending_names_the_form() -> None:
    assert exported(Path("x.npz"), TENSORS, {})[:2] == b"PK"
    require_form(Path("model.safetensors"))
    with raises_code(ExportError, "export_form_unknown"):
        require_form(Path("model.pt"))


@pytest.mark.parametrize("name", ["model.safetensors", "model.npz"])
def test_a_result_is_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    request, state, _ = trained(SMALL)
    planted = PlantedTask(TaskState.CLAIMED, result=run_blob(MILESTONES))

    async def fetched(*_: Any) -> Any:
        return FetchedRun(b"", RunState(1, (b"",), state))

    async def asked(*_: Any) -> bytes:
        return request

    monkeypatch.setattr(task_runs, "fetch_result", fetched)
    monkeypatch.setattr(task_runs, "fetch_input", asked)
    target = tmp_path / name
    with chain_with(tmp_path, planted) as url:
        words = ["task", "result", planted.name, *OF_BOB, "--export", str(target)]
        assert answer(ogpu(tmp_path, url, *words))["exported_to"] == str(target)
        assert target.read_bytes()
        assert ended_code(ogpu(tmp_path, url, *words)) == "file_exists"
        both = [*words, "--out", str(tmp_path / "." / name), "--force"]
        assert ended_code(ogpu(tmp_path, url, *both)) == "same_file"
        folder = tmp_path / f"folder{target.suffix}"
        folder.mkdir()
        assert ended_code(ogpu(tmp_path, url, *words[:-1], str(folder))) == "not_a_file"
        assert answer(ogpu(tmp_path, url, *words, "--force"))["written_to"] is None
        assert ended_code(ogpu(tmp_path, url, *words[:-1], str(tmp_path / "x.pt"))) == "export_form_unknown"
        monkeypatch.setattr(registry, "form_of", lambda _: None)
        assert ended_code(ogpu(tmp_path, url, *words, "--force")) == "no_model"


ONE = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}


@pytest.mark.parametrize(
    ("tensors", "data_bytes"),
    [
        ({"a": ONE, "b": ONE}, 16),  # the same data twice
        ({"a": {**ONE, "shape": [-2, -2]}}, 16),
        ({"a": {**ONE, "shape": [4, 2**62 + 1]}}, 16),
        ({"a": {**ONE, "shape": [float("inf")]}}, 16),
        ({"a": {**ONE, "shape": [], "data_offsets": [0, 4]}}, 4),
        ({"a": {**ONE, "data_offsets": [16, 32]}}, 32),
        ({"a": {**ONE, "data_offsets": [0, -16]}}, 16),
        ({"a": ONE}, 20),
        ({"a": ONE}, 12),
    ],
)
def test_tensors_that_do_not_follow_each_other_are_no_model(tensors: dict[str, Any], data_bytes: int) -> None:
    header = json.dumps({"__metadata__": {}, **tensors}).encode()
    with raises_code(ExportError, "no_model"):
        read_safetensors(len(header).to_bytes(8, "little") + header + bytes(data_bytes))


def test_tensors_in_a_row_are_read_again() -> None:
    tensors = (ModelTensor("a", (2, 2), bytes(range(16))), ModelTensor("b", (1,), b"wxyz"))
    assert read_safetensors(safetensors_file(tensors, {"workload": "w"})) == (tensors, {"workload": "w"})
