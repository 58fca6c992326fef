"""`watch` of a task: whose key holds its checkpoints, and which end is one without a result."""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cli.session import CallFailedError, WalletSession
from gpu_tasks.client.commands import task_runs
from gpu_tasks.client.tasks.progress import TaskFollower
from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Task, TaskState
from planted_tasks import BOB_KEY
from priced_tasks import a_task
from wallet.client import ChainClient

TASK = b"t" * 32


def followed(
    monkeypatch: pytest.MonkeyPatch, folder: Path, customer: bytes, outcome: TaskOutcome = TaskOutcome.ON_TIME
) -> TaskFollower:
    """How Bob follows a task of a customer, which ends so."""
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
    following = task_runs.follow_task(
        cast(WalletSession, session), cast(ChainClient, client), BOB_KEY, TASK, folder, accepts=False
    )
    asyncio.run(following)
    return seen[0]


def test_only_its_customers_key_holds_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keeper = followed(monkeypatch, tmp_path, BOB_KEY.account).keeper
    assert keeper is not None
    assert keeper.folder == tmp_path
    assert followed(monkeypatch, tmp_path, b"c" * 32).keeper is None
    assert "its checkpoints are not held with this key" in capsys.readouterr().err


@pytest.mark.parametrize("outcome", list(TaskOutcome))
def test_which_ends_are_without_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: TaskOutcome) -> None:
    has_result = outcome.name in ("ON_TIME", "LATE", "ACCEPTED_BY_SILENCE", "DISPUTED_FALSELY", "CLOSED", "TIME_OVER")
    if has_result:
        followed(monkeypatch, tmp_path, BOB_KEY.account, outcome)
        return
    with pytest.raises(CallFailedError, match="ended without a result"):
        followed(monkeypatch, tmp_path, BOB_KEY.account, outcome)
