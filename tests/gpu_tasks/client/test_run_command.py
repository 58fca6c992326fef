"""`ogpu run`: the job that a command line comes to, and the exit code that is this program's."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from converted import IMAGE
from gpu_tasks.client.commands import run
from gpu_tasks.client.output_files import OutputFile
from gpu_tasks.client.tasks.results import RunBlobError
from gpu_tasks.data import market_reads
from gpu_tasks.data.program_left import ProgramLeft
from gpu_tasks.market.devices.records import DeviceClass, Provider
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.tasks import Slot, Task, TaskResult, TaskState
from gpu_tasks.tasks.container_task import ContainerTask
from gpu_tasks.tasks.task_kinds import ContainerSource, read_any_task
from priced_tasks import a_task
from task_customer import OF_BOB, ogpu, refusal
from wallet_runner import answer, chain

JOB = ["run", *OF_BOB, "--image", IMAGE, "--max-price", "2 oGPU", "--anyway"]


def saved(folder: Path, url: str, *words: str) -> ContainerTask:
    """What would be submitted."""
    path = folder / "task.yaml"
    path.unlink(missing_ok=True)
    answer(ogpu(folder, url, *JOB, "--save", str(path), "--dry-run", *words, "--", "sh", "-c", "exit 3"))
    source = read_any_task(path.read_bytes(), "x")
    assert isinstance(source, ContainerSource)
    return source.file.task


def test_a_command_line_is_a_job(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("many")
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "words").write_text("others")
    with chain(tmp_path) as url:
        plain = saved(tmp_path, url, "--env", "A=b=c", "--in", str(tmp_path / "words"))
        assert (plain.command, dict(plain.environment), plain.inputs) == (
            ("sh", "-c", "exit 3"), {"A": "b=c"}, ("words",),
        )  # fmt: skip
        assert (plain.gpus, plain.classes, plain.is_lease) == (0, tuple(DeviceClass), False)
        any_gpu = saved(tmp_path, url, "--gpu", "any")
        assert (any_gpu.gpus, any_gpu.classes) == (1, (DeviceClass.CONSUMER, DeviceClass.DATACENTER))
        assert saved(tmp_path, url, "--gpu", "datacenter").classes == (DeviceClass.DATACENTER,)
        both = ["--in", str(tmp_path / "words"), "--in", str(tmp_path / "deeper" / "words")]
        assert "two files have one name" in refusal(ogpu(tmp_path, url, *JOB, *both, "--dry-run", "--", "true"))


def test_a_long_time_is_bought_in_longer_intervals(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        assert saved(tmp_path, url, "--time", "5h").interval is None
        for time, most, code in (("24h", "21h 15m", 2), ("12h", "10h 37m 30s", 1)):
            said = refusal(ogpu(tmp_path, url, *JOB, "--time", time, "--dry-run", "--", "true", as_json=False), code)
            assert "error: --time: " in said
            assert most in said


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--max-price", "1 DOT"], "--max-price"),
        (["--memory", "2G"], "--memory"),
        (["--disk", "2G"], "--disk"),
        (["--secret", "MY-VAR=/dev/null"], "--secret"),
        (["--env", "MY-VAR=1"], "--env MY-VAR"),
        (["--env", "A=1", "--env", f"{'A' * 30}={'x' * 4_097}"], f"--env {'A' * 30}"),
        (["--image", "nginx:1"], "--image"),
        (["--copies", "2"], "--copies"),
        (["--gpu", "any", "--cpu", "x"], "--cpu"),
    ],
)
def test_what_is_wrong_is_said_of_the_option(tmp_path: Path, words: list[str], option: str) -> None:
    refused = ogpu(tmp_path, "ws://127.0.0.1:1", *JOB, *words, "--dry-run", "--", "true", as_json=False)
    assert f"error: {option}: " in refusal(refused)


def test_a_program_may_be_one_long_word(tmp_path: Path) -> None:
    refused = ogpu(tmp_path, "ws://127.0.0.1:1", *JOB, "--dry-run", "--", "sh", "-c", "x" * 4_097, as_json=False)
    assert "error: COMMAND: " in refusal(refused)
    assert "--in FILE" in refused.stderr


@pytest.mark.usefixtures("stored_nowhere")
def test_who_does_not_wait_is_told_that_the_program_waits_for_its_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hunter2")
    with chain(tmp_path) as url:
        done = ogpu(tmp_path, url, *JOB, "--yes", "--detach", "--secret", "TOKEN", "--", "true")
    task = answer(done)["task"]
    assert f"`ogpu secrets {task} NAME...`" in done.stderr
    assert "hunter2" not in done.output


def ended(exit_code: int | None) -> Task:
    """A job that ran."""
    result = None if exit_code is None else TaskResult(b"r" * 32, bytes(32), exit_code)
    slot = Slot(b"p" * 32, b"d" * 32, 5, 9, 7, result=result)
    task = a_task(state=TaskState.ENDED, outcome=TaskOutcome.TIME_OVER, slots=(slot,))
    return replace(task, order=replace(task.order, checked_by=CheckedBy.METERED))


@pytest.mark.usefixtures("stored_nowhere")
@pytest.mark.parametrize(("stated", "code"), [(0, 0), (3, 3), (255, 255), (256, 255), (None, run.EXIT_UNKNOWN)])
def test_its_exit_code_is_that_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: int | None, code: int
) -> None:
    async def follow(*_: object, **__: object) -> Task:
        return ended(stated)

    async def fetch(*_: Any) -> bool:
        return True

    monkeypatch.setattr(run, "follow_task", follow)
    monkeypatch.setattr(run, "_fetch", fetch)
    with chain(tmp_path) as url:
        done = ogpu(tmp_path, url, *JOB, "--yes", "--", "true")
    assert done.exit_code == code, done.output


@pytest.mark.parametrize(
    ("lost", "is_whole"), [(None, True), ("fetch_lines", False), ("fetch_outputs", False)], ids=str
)
def test_a_part_that_cannot_be_fetched_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str | None, is_whole: bool
) -> None:
    """Else the command counts as done, and fetches nothing when it is repeated."""

    async def nobody(*_: Any) -> dict[bytes, Provider]:
        return {}

    async def lines(*_: Any) -> ProgramLeft:
        return ProgramLeft(b"", (), 0)

    async def outputs(*_: Any) -> bytes:
        return b"tar"

    async def refuse(*_: Any) -> bytes:
        raise RunBlobError("no store has it")

    for module, name, stub in (
        (market_reads, "providers", nobody), (run, "fetch_lines", lines), (run, "fetch_outputs", outputs)
    ):  # fmt: skip
        monkeypatch.setattr(module, name, refuse if name == lost else stub)
    monkeypatch.setattr(run, "places_with_lines", lambda _: [0])
    monkeypatch.setattr(market_reads, "is_development", lambda _: True)
    out = OutputFile(tmp_path / "out.tar")
    client = cast("Any", SimpleNamespace(finalized=nobody))
    assert asyncio.run(run._fetch(client, cast("Any", None), bytes(32), ended(0), out)) is is_whole
    assert out.named.exists() is (lost != "fetch_outputs")
