"""A task followed to its end: its secrets, its requeues, the tasks that it waits for, the end that counts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest

from cli.session import CallFailedError, WalletSession
from error_codes import raises_code
from gpu_tasks.client.commands import task_runs
from gpu_tasks.client.commands.id_prefixes import TaskError
from gpu_tasks.client.commands.task_runs import (
    DependencyError,
    named_secrets,
    run_again,
    secrets_of,
    waiting_for,
    was_cut_off,
)
from gpu_tasks.client.tasks.progress import TaskFollower
from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.tasks import Slot, Task, TaskResult, TaskState
from gpu_tasks.tasks.container_request import CONTAINER_WORKLOAD
from gpu_tasks.tunnel.frames import SECRETS_BYTES_MAX
from planted_tasks import BOB_KEY
from priced_tasks import a_task
from runtime.cryptography import ss58
from wallet.client import ChainClient

# `watch` of a task: whose key holds its checkpoints, and which end is one without a result.


TASK = b"t" * 32


def followed(
    monkeypatch: pytest.MonkeyPatch, folder: Path, customer: bytes, outcome: TaskOutcome = TaskOutcome.ON_TIME
) -> TaskFollower:
    """Let Bob follow a customer's task with this outcome, and return the follower."""
    seen: list[TaskFollower] = []
    task = a_task(state=TaskState.ENDED, customer=customer, outcome=outcome)

    async def found(*_: object) -> Task:
        return task

    async def shown(follower: TaskFollower, _output: object) -> Task:
        seen.append(follower)
        return task

    async def finalized() -> bytes:
        return bytes(32)

    monkeypatch.setattr(training_reads, "task", found)
    monkeypatch.setattr(task_runs, "show_changes", shown)
    monkeypatch.setattr(market_reads, "is_development", lambda _: True)
    session: Any = SimpleNamespace(keyring=SimpleNamespace(folder=folder), output=None, doing=lambda _: nullcontext())
    client: Any = SimpleNamespace(genesis_hash=b"g" * 32, finalized=finalized)
    following = task_runs.follow_task(cast(WalletSession, session), cast(ChainClient, client), BOB_KEY, TASK, folder)
    asyncio.run(following)
    return seen[0]


def test_only_its_customers_key_holds_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keeper = followed(monkeypatch, tmp_path, BOB_KEY.account).keeper
    assert keeper is not None
    assert keeper.folder == tmp_path
    assert followed(monkeypatch, tmp_path, b"c" * 32).keeper is None
    assert ss58.encode(b"c" * 32) in capsys.readouterr().err


@pytest.mark.parametrize("outcome", list(TaskOutcome))
def test_which_ends_are_without_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: TaskOutcome) -> None:
    has_result = outcome.name in ("ON_TIME", "LATE", "TIME_OVER")
    if has_result:
        followed(monkeypatch, tmp_path, BOB_KEY.account, outcome)
        return
    with pytest.raises(CallFailedError, match="ended without a paid result"):
        followed(monkeypatch, tmp_path, BOB_KEY.account, outcome)


# What a time limit cut off is submitted again, so often and no more; chains that say so: `test_selling_time`.


def ended(
    *, blocks: int = 15, exit_code: int = 143, is_lease: bool = False, outcome: TaskOutcome = TaskOutcome.TIME_OVER,
    checked_by: CheckedBy = CheckedBy.METERED,
) -> Task:  # fmt: skip
    """A task that had 15 blocks, and took some."""
    slot = Slot(
        bytes(32), bytes(32), 1, promised=15, collateral=1, started_at=100, finished_at=100 + blocks,
        result=TaskResult(bytes(32), bytes(32), exit_code),
    )  # fmt: skip
    task = a_task(state=TaskState.ENDED, outcome=outcome)
    checked = CheckedBy.LEASED if is_lease else checked_by
    order = replace(task.order, workload=CONTAINER_WORKLOAD, checked_by=checked)
    return replace(task, order=order, slots=(slot,), started_at=100)


@pytest.mark.parametrize(
    ("task", "is_cut"),
    [
        (ended(), True),
        (ended(blocks=16, exit_code=137), True),
        (ended(blocks=14), False),
        (ended(exit_code=0), False),
        (ended(is_lease=True, exit_code=0), True),
        (ended(is_lease=True, blocks=14), False),
        (ended(outcome=TaskOutcome.TIME_STOPPED), False),
        (ended(outcome=TaskOutcome.LEFT), False),
        (ended(checked_by=CheckedBy.REPLICATED, outcome=TaskOutcome.ON_TIME), False),
        (ended(checked_by=CheckedBy.EXECUTED), False),
    ],
)
def test_what_was_cut_off(task: Task, is_cut: bool) -> None:
    assert was_cut_off(task) is is_cut


@pytest.mark.parametrize(
    ("ends", "requeues", "runs"),
    [
        ([ended(), ended(), ended(exit_code=0), ended()], 3, 3),
        ([ended()] * 9, 3, 4),
        ([ended()] * 9, 0, 1),
        ([ended(blocks=3), ended()], 5, 1),
    ],
)
def test_it_is_submitted_again_so_often_and_no_more(ends: list[Task], requeues: int, runs: int) -> None:
    said, left = list[str](), list(ends)

    async def run() -> Task:
        return left.pop(0)

    assert asyncio.run(run_again(run, requeues, said.append)) is ends[runs - 1]
    assert len(ends) - len(left) == runs
    assert len(said) == runs - 1


# Secrets as people name them: from the environment or from files, all that the task file names, and no others.


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "of the environment")
    monkeypatch.delenv("PASSWORD", raising=False)


def test_values_come_from_the_environment_or_from_files(tmp_path: Path) -> None:
    (tmp_path / "key=1").write_bytes(b"\xff\n")
    assert secrets_of(["TOKEN", f"PASSWORD={tmp_path / 'key=1'}"]) == {
        "TOKEN": b"of the environment",
        "PASSWORD": b"\xff\n",
    }


def test_what_a_file_names_is_read_each_from_where_it_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(b"p")
    words = [f"PASSWORD={tmp_path / 'password'}"]
    assert named_secrets(("TOKEN", "PASSWORD"), words) == {"TOKEN": b"of the environment", "PASSWORD": b"p"}
    assert named_secrets((), ()) == {}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["PASSWORD"], "variable PASSWORD"),
        (["PASSWORD=/nowhere/at/all"], "/nowhere/at/all: No such file"),
    ],
)
def test_what_is_not_there_is_said(words: list[str], says: str) -> None:
    with pytest.raises(click.UsageError, match=says):
        secrets_of(words)


def test_secrets_that_no_task_file_names_are_refused() -> None:
    with pytest.raises(click.UsageError, match="names no secret 'OTHER'"):
        named_secrets(("TOKEN",), ["OTHER=x"])


@pytest.mark.parametrize(("size", "is_taken"), [(SECRETS_BYTES_MAX, True), (SECRETS_BYTES_MAX + 1, False)])
def test_secrets_are_short(tmp_path: Path, size: int, *, is_taken: bool) -> None:
    (tmp_path / "data").write_bytes(bytes(size))
    try:
        assert secrets_of([f"DATA={tmp_path / 'data'}"]) == {"DATA": bytes(size)}
        assert is_taken
    except click.UsageError as error:
        assert not is_taken
        assert "at most 65,536 bytes" in error.message  # noqa: PT017


# `--after-ok` and `--after-any`: what is waited for, which ends let the next task go, and what is said meanwhile.


NAME = "0x" + "ab" * 32
OPEN = a_task()
WELL = a_task(state=TaskState.ENDED, outcome=TaskOutcome.ON_TIME)
BADLY = a_task(state=TaskState.ENDED, outcome=TaskOutcome.NO_AWARD)


NO_SESSION = cast(WalletSession, None)
"""A whole id is looked up nowhere."""


def waited(
    monkeypatch: pytest.MonkeyPatch, *seen: Task | None, after_ok: str | None = None, after_any: str | None = None
) -> int:
    """Return the number of reads of the chain."""
    looks: list[bytes] = []

    async def moments(_: object) -> AsyncIterator[None]:
        for _each in seen:
            yield

    async def task(_client: object, task_id: bytes, _final: bytes) -> Task | None:
        looks.append(task_id)
        return seen[len(looks) - 1]

    async def finalized() -> bytes:
        return bytes(32)

    monkeypatch.setattr(task_runs, "moments", moments)
    monkeypatch.setattr(training_reads, "task", task)
    client: Any = SimpleNamespace(finalized=finalized)
    asyncio.run(_run(waiting_for(NO_SESSION, "//Bob", after_ok, after_any), cast(ChainClient, client)))
    assert set(looks) <= {b"\xab" * 32}
    return len(looks)


async def _run(wait: task_runs.WaitForTask, client: ChainClient) -> None:
    await wait(client)


def test_who_names_none_waits_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited(monkeypatch, OPEN) == 0


def test_both_at_once_is_a_slip() -> None:
    with pytest.raises(click.UsageError, match="not both"):
        waiting_for(NO_SESSION, "//Bob", NAME, NAME)


@pytest.mark.parametrize("option", ["after_ok", "after_any"])
def test_it_is_waited_for_until_it_has_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert waited(monkeypatch, OPEN, OPEN, WELL, **{option: NAME}) == 3
    assert capsys.readouterr().err.count("waiting for 0xabababab") == 1, "the same is said once"


def test_what_did_not_end_well_lets_only_those_go_who_wait_for_any_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited(monkeypatch, OPEN, BADLY, after_any=NAME) == 2
    with raises_code(DependencyError, "dependency_failed"):
        waited(monkeypatch, OPEN, BADLY, after_ok=NAME)


@pytest.mark.parametrize("option", ["after_ok", "after_any"])
def test_how_a_task_ended_that_nobody_knows_is_not_guessed(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    with raises_code(TaskError, "task_unknown"):
        waited(monkeypatch, None, **{option: NAME})
