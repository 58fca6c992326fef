"""The backend of each device: a GPU never computes in NumPy unless its operator asks for that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from click.testing import CliRunner

from gpu_tasks.market.capacity.proofs import WorkShape
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.blobs.store import Quota
from gpu_tasks.provider.cli import main
from gpu_tasks.provider.commands import run
from gpu_tasks.provider.commands.options import ProviderOptions
from gpu_tasks.provider.commands.run import workshop_of
from gpu_tasks.provider.daemon import Daemon, Settings
from gpu_tasks.provider.duties.roll_calls import RollCallPolicy
from gpu_tasks.provider.execution import gpu, worker_start
from gpu_tasks.provider.execution.chain_process import MakeChains, chains_with
from gpu_tasks.provider.execution.containers.spec import MIB
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.limits import limits_for
from gpu_tasks.provider.execution.worker_pool import WorkerPool
from gpu_tasks.provider.execution.worker_start import backends_here, chosen_backend, idle_gpus, room_for, workers_with
from provider_runner import Operator
from wallet_runner import chain

CARD = Hardware("FAKE GPU", "GPU-FAKE-7", DeviceClass.CONSUMER, 24_576, 0, "1")
CPU = Hardware("CPU", "CPU-1", DeviceClass.CPU, 0, None)
JOIN = ["register", "--yes", "--key", "//Eve", "--bond", "1000", "--device-bond", "100", "--node-keys", "//Eve"]


@pytest.fixture(params=[False, True])
def torch_is_there(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(worker_start, "find_spec", lambda _: object() if request.param else None)
    return bool(request.param)


@pytest.fixture
def _card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_start, "find_spec", lambda _: None)
    monkeypatch.setattr(gpu, "_gpus", lambda: [CARD])


@pytest.fixture
def eve(tmp_path: Path) -> Iterator[Operator]:
    (tmp_path / "chain").mkdir()
    with chain(tmp_path / "chain") as url:
        yield Operator(tmp_path, url, "Eve")


def test_without_a_wish_the_devices_choose(*, torch_is_there: bool) -> None:
    assert chosen_backend(None, [CPU]) == "numpy"
    assert chosen_backend(None, [CARD, CPU]) == ("torch-cuda" if torch_is_there else "numpy")
    assert idle_gpus(chosen_backend(None, [CARD, CPU]), [CARD, CPU]) == ([] if torch_is_there else [CARD])
    for wish in ("numpy", "torch-cpu"):
        assert chosen_backend(wish, [CARD]) == wish
        assert idle_gpus(wish, [CARD, CPU]) == [CARD]
    assert ("torch-cuda" in backends_here()) is torch_is_there


@pytest.mark.parametrize("wish", ["abacus", "torch", "torch-cuda", "cuda", ""])
@pytest.mark.parametrize("command", [["run"], ["doctor", "--offline"], ["bench"]])
def test_a_backend_that_is_not_installed_is_refused_with_those_that_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], wish: str
) -> None:
    monkeypatch.setattr(worker_start, "find_spec", lambda _: None)
    said = CliRunner().invoke(main, ["--base-path", str(tmp_path), *command, "--backend", wish])
    assert said.exit_code == 2
    assert "numpy, reference." in said.stderr
    assert "torch-cuda," not in said.stderr


@pytest.mark.usefixtures("_card")
@pytest.mark.parametrize(("options", "grade", "code"), [([], "problem", 1), (["--backend", "numpy"], "warning", 0)])
def test_doctor_says_that_a_gpu_would_compute_in_numpy(
    tmp_path: Path, options: list[str], grade: str, code: int
) -> None:
    answer = Operator(tmp_path, "ws://127.0.0.1:9", "Eve").run("doctor", "--offline", *options)
    assert answer.exit_code == code
    rows: dict[str, Any] = {row["check"]: row for row in json.loads(answer.stdout)}
    assert rows["backend"]["grade"] == grade
    assert CARD.name in rows["backend"]["says"]


@pytest.mark.usefixtures("_card")
def test_run_refuses_a_gpu_that_would_compute_in_numpy(eve: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_until_stopped", AsyncMock(return_value=None))
    joined = eve.run(*JOIN)
    assert joined.exit_code == 0
    assert CARD.name in joined.stderr, "register says it before any money is bound"
    for options in ([], ["--device", "0"]):
        assert "--backend numpy" in eve.refusal("run", "--blob-port", "0", *options)
    ran = eve.run("run", "--blob-port", "0", "--backend", "numpy")
    assert ran.exit_code == 0, ran.output
    lines = (eve.folder / "Eve" / "telemetry.jsonl").read_text().splitlines()
    told = [event for event in map(json.loads, lines) if event["event"] == "idle_gpu"]
    assert [CARD.name in event["problem"] for event in told] == [True]


@pytest.mark.usefixtures("_card")
@pytest.mark.parametrize(("options", "backend"), [([], "torch-cuda"), (["--backend", "numpy"], "numpy")])
def test_roll_calls_are_computed_by_the_backend_of_run(
    eve: Operator, monkeypatch: pytest.MonkeyPatch, options: list[str], backend: str
) -> None:
    class StopsAtOnce(Exception):
        pass

    made: list[tuple[MakeChains, str]] = []

    def noted(named: str) -> MakeChains:
        made.append((chains_with(named), named))
        return made[-1][0]

    def stop(daemon: Daemon, *given: object) -> None:
        settings = given[-1]
        assert isinstance(settings, Settings)
        assert [settings.make_chains] == [make for make, _ in made]
        assert (settings.keep_paused, settings.quota) == (True, Quota(input_bytes_max=7 * MIB))
        assert settings.roll_calls == RollCallPolicy(False, WorkShape(512, 4_096, 9))
        assert (settings.blob_host, settings.blob_port) == ("127.0.0.7", 17)
        assert settings.base_path == eve.folder / "Eve"
        raise StopsAtOnce

    monkeypatch.setattr(run, "chains_with", noted)
    monkeypatch.setattr(Daemon, "__init__", stop)
    eve.answer(*JOIN)
    monkeypatch.setattr(worker_start, "find_spec", lambda _: object())
    words = ["--blob-host", "127.0.0.7", "--blob-port", "17", "--keep-paused", "--input-mib", "7", "--no-roll-calls"]
    assert eve.refused_code("run", "--roll-call-work", "512x4096") == "invalid_work"
    assert eve.refused_code("run", "--roll-call-work", "512x4096x9999") == "work_out_of_range"
    words += ["--roll-call-work", "512x4096x9"]
    assert isinstance(eve.run("run", *words, *options).exception, StopsAtOnce)
    assert [named for _, named in made] == [backend]


def test_a_gpu_that_is_not_registered_keeps_no_processor_from_its_work(
    eve: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_until_stopped", AsyncMock(return_value=None))
    eve.answer(*JOIN)
    monkeypatch.setattr(worker_start, "find_spec", lambda _: None)
    monkeypatch.setattr(gpu, "_gpus", lambda: [CARD])
    working: list[str] = []

    def noted(options: ProviderOptions, backend: str, walls: Any, pieces: list[Hardware], *names: Any) -> WorkerPool:
        working.extend(piece.name for piece in pieces)
        return workshop_of(options, backend, walls, pieces, *names)

    monkeypatch.setattr(run, "workshop_of", noted)
    monkeypatch.setattr(run, "lost_gpus", lambda: ["GPU 1: lost"])
    ran = eve.run("run", "--blob-port", "0")
    assert working == [gpu.CPU_BESIDE_GPUS_NAME], "no checker's work goes to the card either"
    assert ran.exit_code == 0, ran.output
    lines = (eve.folder / "Eve" / "telemetry.jsonl").read_text().splitlines()
    served = [event["hardware"] for event in map(json.loads, lines) if event["event"] == "serving"]
    assert served == [gpu.CPU_BESIDE_GPUS_NAME]
    assert [event["problem"] for event in map(json.loads, lines) if event["event"] == "lost_gpu"] == ["GPU 1: lost"]


@pytest.mark.parametrize("backend", ["numpy", "torch-cpu", "torch-cuda:0"])
def test_the_limits_of_a_worker_follow_its_model(backend: str) -> None:
    usual, large = limits_for(backend), limits_for(backend, 700 * MIB, 100 * MIB)
    assert large.address_mib == (usual.address_mib and usual.address_mib + 800)
    assert (usual.room_mib, large.room_mib) == (0, 100)


def large_form(model_mib: int) -> Mock:
    form = Mock(backends=("numpy",), memory_bytes=lambda: model_mib * MIB, room_bytes=lambda: 100 * MIB)
    form.name = "large"
    return form


def test_a_worker_starts_with_the_limits_of_its_model() -> None:
    command = workers_with("numpy")(CPU, large_form(700))._process._worker_command  # type: ignore[attr-defined]
    assert json.loads(command[-1]) == asdict(limits_for("numpy", 700 * MIB, 100 * MIB))


@pytest.mark.parametrize("wish", ["torch-cuda", "torch-cpu"])
def test_a_worker_in_numpy_has_its_limits_under_any_wish(wish: str) -> None:
    """Of a workload without a backend in PyTorch. CUDA has no limit of memory, and many processes."""
    command = workers_with(wish)(CPU, large_form(700))._process._worker_command  # type: ignore[attr-defined]
    assert command[command.index("--backend") + 1] == "numpy"
    assert json.loads(command[-1]) == asdict(limits_for("numpy", 700 * MIB, 100 * MIB))


def test_a_worker_is_told_the_id_of_its_model() -> None:
    """Two models of one store may have the same name."""
    form = large_form(700)
    form.name, form.model_id = "decoder-int8:same", bytes(31) + b"\x07"
    command = workers_with("numpy")(CPU, form)._process._worker_command  # type: ignore[attr-defined]
    assert f"decoder-int8:{'00' * 31}07" in command


def test_requests_get_what_the_model_leaves_of_the_free_memory() -> None:
    assert room_for(large_form(700), 0) == 100 * MIB
    assert room_for(large_form(700), 2_000 * MIB) == 100 * MIB
    assert room_for(large_form(700), 800 * MIB) == 20 * MIB
    with pytest.raises(ExecutionError) as refused:
        room_for(large_form(700), 777 * MIB)
    assert refused.value.code == "memory_too_small"
