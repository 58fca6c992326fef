"""`--after-ok` and `--after-any`: what is waited for, which ends let the next task go, and what is said meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest

from cli.session import WalletSession
from gpu_tasks.client.commands import task_runs
from gpu_tasks.client.commands.id_prefixes import TaskError
from gpu_tasks.client.commands.task_runs import DependencyError, waiting_for
from gpu_tasks.data import training_reads
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Task, TaskState
from priced_tasks import a_task
from wallet.client import ChainClient

NAME = "0x" + "ab" * 32
OPEN = a_task()
WELL = a_task(state=TaskState.ENDED, outcome=TaskOutcome.ON_TIME)
BADLY = a_task(state=TaskState.ENDED, outcome=TaskOutcome.NO_AWARD)


NO_SESSION = cast(WalletSession, None)
"""A whole id is looked up nowhere."""


def waited(
    monkeypatch: pytest.MonkeyPatch, *seen: Task | None, after_ok: str | None = None, after_any: str | None = None
) -> int:
    """How often the chain was looked at."""
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
    with pytest.raises(click.UsageError, match="one of the two"):
        waiting_for(NO_SESSION, "//Bob", NAME, NAME)


@pytest.mark.parametrize("option", ["after_ok", "after_any"])
def test_it_is_waited_for_until_it_has_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert waited(monkeypatch, OPEN, OPEN, WELL, **{option: NAME}) == 3
    assert capsys.readouterr().err.count("waiting for 0xabababab") == 1, "the same is said once"


def test_what_did_not_end_well_lets_only_those_go_who_wait_for_any_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited(monkeypatch, OPEN, BADLY, after_any=NAME) == 2
    with pytest.raises(DependencyError, match=r"0xabab.*nothing was submitted"):
        waited(monkeypatch, OPEN, BADLY, after_ok=NAME)


@pytest.mark.parametrize("option", ["after_ok", "after_any"])
def test_how_a_task_ended_that_nobody_knows_is_not_guessed(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    with pytest.raises(TaskError, match="how it ended is not known"):
        waited(monkeypatch, None, **{option: NAME})
