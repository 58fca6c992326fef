"""`ogpu task sample`: a task's model and its exported file continue a prompt with the same text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from error_codes import ended_code, raises_code
from gpu_tasks.client.commands import sample, task_runs
from gpu_tasks.client.tasks.exports import ExportError, read_safetensors, safetensors_file
from gpu_tasks.client.tasks.results import FetchedRun
from gpu_tasks.data.run_states import RunState
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.workloads.form import ModelTensor
from gpu_tasks.workloads.model_forms import form_named
from gpu_tasks.workloads.stepwise import states
from gpu_tasks.workloads.train_int8.backends import arithmetic
from gpu_tasks.workloads.train_int8.form import TrainingForm
from gpu_tasks.workloads.train_int8.request import REQUEST
from gpu_tasks.workloads.train_int8.run import TrainingRun
from planted_state import chain_with
from planted_tasks import MILESTONES, PlantedTask, order, run_blob
from task_customer import OF_BOB, ogpu
from training_requests import SMALL
from wallet_runner import answer

WANTED = ["--prompt", "def ", "--max-tokens", "20", "--seed", "7"]


def test_a_task_and_its_exported_file_give_one_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = list(states(TrainingRun(arithmetic("numpy"), SMALL)))[-1]
    planted = PlantedTask(TaskState.CLAIMED, result=run_blob(MILESTONES))

    async def fetched(*_: Any) -> Any:
        return FetchedRun(b"", RunState(1, (b"",), state))

    async def asked(*_: Any) -> bytes:
        return REQUEST.encode(SMALL)

    for module in (task_runs, sample):
        monkeypatch.setattr(module, "fetch_result", fetched)
    monkeypatch.setattr(task_runs, "fetch_input", asked)
    file = tmp_path / "model.safetensors"
    with chain_with(tmp_path, planted) as url:
        answer(ogpu(tmp_path, url, "task", "result", planted.name, *OF_BOB, "--export", str(file)))
        of_task = answer(ogpu(tmp_path, url, "task", "sample", planted.name, *OF_BOB, *WANTED))
        assert ended_code(ogpu(tmp_path, url, "task", "sample", planted.name, *WANTED)) == "usage"
        foreign = ["--key", "//Alice", *WANTED]
        assert ended_code(ogpu(tmp_path, url, "task", "sample", planted.name, *foreign)) == "not_owner"
    nowhere = "ws://127.0.0.1:9"
    of_file = answer(ogpu(tmp_path, nowhere, "task", "sample", str(file), *WANTED))
    tensors, metadata = read_safetensors(file.read_bytes())
    added = form_named("train-int8").sample(tensors, b"def ", 20, (7).to_bytes(32, "little"))
    assert added is not None
    assert of_task["text"] == of_file["text"] == added.decode(errors="replace")
    assert metadata == {"workload": "train-int8", "task_hash": "0x" + order().task_hash.hex()}
    assert of_file["workload"] == "train-int8"
    for broken in (
        safetensors_file(tensors, {"workload": "render-tile"}),
        safetensors_file(tensors, {"workload": "none"}),
        safetensors_file(tensors[1:], metadata),
        file.read_bytes()[:-4],
    ):
        file.write_bytes(broken)
        assert ended_code(ogpu(tmp_path, nowhere, "task", "sample", str(file), *WANTED)) == "no_model"

    def lacking(*_: object) -> None:
        raise ImportError("numpy")

    monkeypatch.setattr(TrainingForm, "sample", lacking)
    file.write_bytes(safetensors_file(tensors, metadata))
    assert ended_code(ogpu(tmp_path, nowhere, "task", "sample", str(file), *WANTED)) == "library_missing"


@pytest.mark.parametrize("data", [b"", b"\xff" * 64, b"\x02" + bytes(7) + b"{}", b"\x02" + bytes(7) + b"[]"])
def test_what_is_no_export_is_refused(data: bytes) -> None:
    with raises_code(ExportError, "no_model"):
        read_safetensors(data)


def test_an_export_is_read_as_it_was_written() -> None:
    tensors = (ModelTensor("a", (1, 2), b"12345678"), ModelTensor("b", (1,), b"1234"))
    assert read_safetensors(safetensors_file(tensors, {"workload": "x"})) == (tensors, {"workload": "x"})
