"""`ogpu submit --array`: what all members cost is asked once, none is submitted twice, nobody's bid is tried again."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.session import CallFailedError
from converted import IMAGE
from gpu_tasks.client.commands import submit, task_runs, tasks
from gpu_tasks.client.commands.submit import ArraySubmission
from gpu_tasks.client.tasks.arrays import ArrayRecord
from gpu_tasks.client.tasks.drafts import ProgramDraft
from gpu_tasks.client.units.posting_record import RecordError
from gpu_tasks.data import training_reads
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.tasks import Slot, Task, TaskResult, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.plan import plan_of
from planted_tasks import BOB
from priced_tasks import a_task
from task_customer import OF_BOB, ogpu, refusal
from wallet.client import ChainClient
from wallet.rpc import NodeUnreachableError, RpcError
from wallet_runner import answer, chain

pytestmark = pytest.mark.usefixtures("stored_nowhere", "nothing_final")


def array(folder: Path, indices: str, *more: str, price: str = "2 oGPU", secrets: tuple[str, ...] = ()) -> list[str]:
    path = folder / "job.yaml"
    path.write_text(ProgramDraft("sweep", IMAGE, price, command=("run",), secrets=secrets).text())
    return ["submit", str(path), *OF_BOB, "--anyway", "--array", indices, *more]


async def count(url: str) -> int:
    async with await ChainClient.connect(url) as client:
        return int(await client.read(TrainingMarket.submitted, BOB, at=await client.finalized()))


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
        said = refusal(ogpu(tmp_path, url, *array(tmp_path, "7", "--watch", "--yes")), 1)
        assert "1 of 1 did not end well: [7]" in said
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

    async def follow(*_: Any, accepts: bool, secrets: dict[str, bytes], **__: Any) -> Task:
        handed.append((accepts, secrets))
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
    assert handed == [(False, {"TOKEN": b"hunter2"})] * 2
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
    for more, named in (("0-1 --watch --accept", "--accept"), ("0-1%1", "%"), ("0-1 --requeue 1", "--requeue")):
        assert named in refusal(ogpu(tmp_path, "ws://127.0.0.1:1", *array(tmp_path, *more.split(), "--yes")))
    training = str(Path(__file__).parents[3] / "examples" / "minimal.yaml")
    requeued = ["submit", training, *OF_BOB, "--watch", "--requeue", "1"]
    assert "--requeue" in refusal(ogpu(tmp_path, "ws://127.0.0.1:1", *requeued)), "it is no program"
    with chain(tmp_path) as url:
        assert answer(ogpu(tmp_path, url, *array(tmp_path, "0-1%1", "--dry-run")))["tasks"] == 2
