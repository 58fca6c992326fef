"""`ogpu run` and `ogpu task submit --array`: the tasks, each submitted once, and the exit code."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cli.session import CallFailedError
from converted import IMAGE
from error_codes import ended_code
from gpu_tasks.client.commands import run, submit, task_runs, tasks
from gpu_tasks.client.commands.submit import ArraySubmission
from gpu_tasks.client.output_files import OutputFile
from gpu_tasks.client.tasks.arrays import ArrayRecord
from gpu_tasks.client.tasks.drafts import ProgramDraft
from gpu_tasks.client.tasks.results import RunBlobError
from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.data.program_left import ProgramLeft
from gpu_tasks.market.devices.records import DeviceClass, Provider
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.tasks import Slot, Task, TaskResult, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.container_task import ContainerTask
from gpu_tasks.tasks.plan import plan_of
from gpu_tasks.tasks.task_kinds import ContainerSource, read_any_task
from planted_tasks import BOB
from priced_tasks import a_task
from task_customer import OF_BOB, ogpu, refusal
from wallet.client import ChainClient
from wallet.outbox import RecordError
from wallet.rpc import NodeUnreachableError, RpcError
from wallet_runner import answer, chain

# `ogpu run`: the job that a command line comes to, and the exit code that is this program's.


JOB = ["run", *OF_BOB, "--image", IMAGE, "--max-price", "2 oGPU", "--anyway"]


def saved(folder: Path, url: str, *words: str) -> ContainerTask:
    """Return the task that the command would submit."""
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
        assert ended_code(ogpu(tmp_path, url, *JOB, *both, "--dry-run", "--", "true")) == "duplicate_input"


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
    assert f"`ogpu task secrets {task} NAME...`" in done.stderr
    assert "hunter2" not in done.output


def test_an_unusable_file_is_refused_before_the_task_is_paid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").touch()
    with chain(tmp_path) as url:
        for words, code in (
            (["--out", str(tmp_path / "no" / "folder"), "--dry-run"], "folder_missing"),
            (["--out", str(tmp_path / "there"), "--dry-run"], "file_exists"),
            (["--out", str(tmp_path / "there"), "--yes"], "file_exists"),
        ):
            assert ended_code(ogpu(tmp_path, url, *JOB, *words, "--", "true")) == code
        monkeypatch.setattr(os, "access", lambda _path, wanted: not wanted & os.W_OK)
        unwritable = ogpu(tmp_path, url, *JOB, "--out", str(tmp_path / "new"), "--dry-run", "--", "true")
        assert ended_code(unwritable) == "file_unwritable"
        assert asyncio.run(count(url)) == 0


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
    monkeypatch.setattr(run, "_fetch_ended", fetch)
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
    assert asyncio.run(run._fetch_ended(client, cast("Any", None), bytes(32), ended(0), out)) is is_whole
    assert out.named.exists() is (lost != "fetch_outputs")


# `ogpu task submit --array`: what all members cost is asked once, none is submitted twice, nobody's bid is tried again.


pytestmark = pytest.mark.usefixtures("stored_nowhere", "nothing_final")


def array(folder: Path, indices: str, *more: str, price: str = "2 oGPU", secrets: tuple[str, ...] = ()) -> list[str]:
    path = folder / "job.yaml"
    path.write_text(ProgramDraft("sweep", IMAGE, price, command=("run",), secrets=secrets).text())
    return ["task", "submit", str(path), *OF_BOB, "--anyway", "--array", indices, *more]


async def count(url: str) -> int:
    async with await ChainClient.connect(url) as client:
        return int(await client.read(TrainingMarket.submission_counts, BOB, at=await client.finalized()))


def test_all_are_asked_for_at_once_and_none_is_submitted_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with chain(tmp_path) as url:
        dry = answer(ogpu(tmp_path, url, *array(tmp_path, "0-2", "--dry-run")))
        assert (dry["tasks"], dry["sent"]) == (3, False)
        assert int(dry["most_of_all"]["grains"]) == 3 * int(dry["most"]["grains"])
        refusal(ogpu(tmp_path, url, *array(tmp_path, "0-2")))
        assert ogpu(tmp_path, url, *array(tmp_path, "0-2"), typed="n\n").exit_code == 1
        assert asyncio.run(count(url)) == 0, "nobody agreed to it"
        rows = answer(ogpu(tmp_path, url, *array(tmp_path, "0-2", "--yes")))
        assert [row["index"] for row in rows] == [0, 1, 2]
        assert len({row["task"] for row in rows}) == asyncio.run(count(url)) == 3
        again = ogpu(tmp_path, url, *array(tmp_path, "0-2", "--dry-run"))
        assert (answer(again)["tasks"], answer(again)["most_of_all"]["grains"]) == (0, "0")
        assert answer(ogpu(tmp_path, url, *array(tmp_path, "0-2", "--yes"))) == rows
        assert answer(ogpu(tmp_path, url, *array(tmp_path, "0-2"), typed="")) == rows, "there is nothing to agree to"
        monkeypatch.setattr(tasks, "plan_of", lambda *given: replace(plan_of(*given), is_served=False))
        words = [word for word in array(tmp_path, "0-2", "--yes") if word != "--anyway"]
        assert answer(ogpu(tmp_path, url, *words)) == rows, "there is nobody to look for"
        assert asyncio.run(count(url)) == 3
        assert len(answer(ogpu(tmp_path, url, *array(tmp_path, "0-1", "--yes")))) == 2
        assert asyncio.run(count(url)) == 5, "other indices are another array"


def test_a_member_that_the_record_of_the_array_lacks_is_not_submitted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RecordError("the disk is full")

    with chain(tmp_path) as url:
        with monkeypatch.context() as patch:
            patch.setattr(ArrayRecord, "note", full)
            for number in (1, 2):
                refusal(ogpu(tmp_path, url, *array(tmp_path, "0", "--again", "--yes")))
                assert asyncio.run(count(url)) == number, "--again submits each member anew"
        dry = answer(ogpu(tmp_path, url, *array(tmp_path, "0", "--dry-run")))
        assert int(dry["most_of_all"]["grains"]) == int(dry["most"]["grains"]) > 0
        (row,) = answer(ogpu(tmp_path, url, *array(tmp_path, "0", "--yes")))
        assert (asyncio.run(count(url)), row["index"]) == (2, 0)


def test_a_dry_run_forgets_nothing_of_an_array(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        rows = answer(ogpu(tmp_path, url, *array(tmp_path, "0", "--yes")))
        assert answer(ogpu(tmp_path, url, *array(tmp_path, "0", "--again", "--dry-run")))["tasks"] == 0
        assert answer(ogpu(tmp_path, url, *array(tmp_path, "0", "--yes"))) == rows
        assert answer(ogpu(tmp_path, url, *array(tmp_path, "0", "--again", "--yes"))) != rows
        assert asyncio.run(count(url)) == 2


def test_members_whose_time_was_over_are_submitted_again_as_often_as_was_agreed_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def follow(*_: object, **__: object) -> Task:
        return a_task(state=TaskState.ENDED, outcome=TaskOutcome.TIME_OVER)

    monkeypatch.setattr(submit, "follow_task", follow)
    monkeypatch.setattr(submit, "was_cut_off", lambda _: True)
    requeued = ["--watch", "--requeue", "1"]
    with chain(tmp_path) as url:
        dry = answer(ogpu(tmp_path, url, *array(tmp_path, "0-2", *requeued, "--dry-run")))
        assert int(dry["most_of_all"]["grains"]) == 3 * 2 * int(dry["most"]["grains"])
        ogpu(tmp_path, url, *array(tmp_path, "7", *requeued, "--yes"))
        assert asyncio.run(count(url)) == 2


def test_what_is_not_there_for_all_of_them_submits_none(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        needed = int(
            answer(ogpu(tmp_path, url, *array(tmp_path, "0", "--dry-run", price="100 oGPU")))["most"]["grains"]
        )
        spendable = int(answer(ogpu(tmp_path, url, *array(tmp_path, "0", "--dry-run")))["spendable"]["grains"])
        dear = f"{spendable * 100 // (2 * needed) + 10} oGPU"  # one of them could be paid, and two could not
        answer(ogpu(tmp_path, url, *array(tmp_path, "0", "--dry-run", price=dear)))
        said = refusal(ogpu(tmp_path, url, *array(tmp_path, "0-1", "--yes", price=dear)))
        assert "submitting 2 tasks takes" in said
        dry = ogpu(tmp_path, url, *array(tmp_path, "0-1", "--dry-run", price=dear))
        assert (dry.exit_code, json.loads(dry.stdout)["sent"]) == (2, False)
        assert asyncio.run(count(url)) == 0


@pytest.mark.parametrize(
    ("outcome", "submitted"), [(TaskOutcome.NO_AWARD, submit.SUBMITTED_MAX), (TaskOutcome.LEFT, 1)]
)
def test_a_member_is_submitted_again_where_nobody_bid_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: TaskOutcome, submitted: int
) -> None:
    async def follow(*_: object, **__: object) -> Task:
        raise CallFailedError("the task ended without a result")

    async def task(*_: Any) -> Task:
        return a_task(state=TaskState.ENDED, outcome=outcome)

    monkeypatch.setattr(submit, "follow_task", follow)
    monkeypatch.setattr(training_reads, "task", task)
    with chain(tmp_path) as url:
        failed = ogpu(tmp_path, url, *array(tmp_path, "7", "--watch", "--yes"))
        assert (failed.exit_code, ended_code(failed), "[7]" in failed.stderr) == (1, "members_failed", True)
        assert asyncio.run(count(url)) == submitted


def test_members_wait_for_the_other_task_and_then_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened, handed, tips, submitted = list[str](), list[Any](), set[int](), ArraySubmission._submitted

    async def begin(self: ArraySubmission, *given: Any) -> bytes:
        happened.append("submit")
        tips.add(self._member(*given[3:]).tip)
        return await submitted(self, *given)

    async def wait(_: object, task_id: bytes, *, is_ok_needed: bool) -> None:
        happened.append(f"wait for {task_id.hex()[:2]}")

    async def follow(*_: Any, secrets: dict[str, bytes], **__: Any) -> Task:
        handed.append(secrets)
        for _each in range(9):
            await asyncio.sleep(0)  # whoever may begin begins
        happened.append("end")
        slot = Slot(b"p" * 32, b"d" * 32, 5, 9, 7, result=TaskResult(b"r" * 32, bytes(32), 3))
        ended = a_task(state=TaskState.ENDED, outcome=TaskOutcome.TIME_OVER, slots=(slot,))
        return replace(ended, order=replace(ended.order, checked_by=CheckedBy.METERED))

    monkeypatch.setenv("TOKEN", "hunter2")
    monkeypatch.setattr(ArraySubmission, "_submitted", begin)
    monkeypatch.setattr(task_runs, "wait_for_end", wait)
    monkeypatch.setattr(submit, "follow_task", follow)
    options = ["--watch", "--yes", "--after-any", "0x" + "ab" * 32, "--tip", "0.5"]
    with chain(tmp_path) as url:
        done = ogpu(tmp_path, url, *array(tmp_path, "0-1%1", *options, secrets=("TOKEN",)))
    assert done.exit_code == 1
    assert tips == {50_000_000}
    assert happened == ["wait for ab", *["submit", "end"] * 2]
    assert handed == [{"TOKEN": b"hunter2"}] * 2
    assert [(row["index"], row["state"], row["exit_code"]) for row in json.loads(done.stdout)] == [
        (0, "ended", 3), (1, "ended", 3),
    ]  # fmt: skip


@pytest.mark.parametrize(("error", "code"), [(NodeUnreachableError("it is gone"), 2), (RpcError(1, "it is busy"), 1)])
def test_a_node_that_fails_one_member_leaves_the_table_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    async def follow(*_: object, **__: object) -> Task:
        raise error

    monkeypatch.setattr(submit, "follow_task", follow)
    with chain(tmp_path) as url:
        failed = ogpu(tmp_path, url, *array(tmp_path, "7", "--watch", "--yes"))
        assert json.loads(refusal(failed, code).splitlines()[-1])["error"]
        assert [row["index"] for row in json.loads(failed.stdout)] == [7]


def test_what_goes_with_no_array_is_a_slip(tmp_path: Path) -> None:
    for more, named in (("0-1%1", "%"), ("0-1 --requeue 1", "--requeue")):
        assert named in refusal(ogpu(tmp_path, "ws://127.0.0.1:1", *array(tmp_path, *more.split(), "--yes")))
    training = str(Path(__file__).parents[4] / "examples" / "minimal.yaml")
    requeued = ["task", "submit", training, *OF_BOB, "--watch", "--requeue", "1"]
    assert "--requeue" in refusal(ogpu(tmp_path, "ws://127.0.0.1:1", *requeued)), "it is no program"
    with chain(tmp_path) as url:
        assert answer(ogpu(tmp_path, url, *array(tmp_path, "0-1%1", "--dry-run")))["tasks"] == 2
