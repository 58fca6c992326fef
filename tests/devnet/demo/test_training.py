"""The demo's training task: its report, and the failures of the demo."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devnet.demo import steps
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet, NodeLayout, Ports
from devnet.stage.actors import task_sale
from devnet.stage.actors.task_sale import TaskSale
from devnet.stage.measuring.ledger import EventTrace
from devnet.stage.measuring.task_ledger import TaskLedger, TaskMove, TaskSums
from devnet.stage.network import Stage
from devnet.stage.report import Narrator
from genesis import dev_accounts
from gpu_tasks.market.training.events import MilestoneCounted, SlotSettled, TaskAwarded
from gpu_tasks.market.training.money import TaskOutcome

TASK, ALICE = b"t" * 32, dev_accounts.stash("Alice")
CHECKS = (
    '[{"what": "award", "is_right": true, "says": ""}, {"what": "root", "is_right": %s, "says": ""}, '
    '{"what": "x", "is_right": true, "says": "as it is"}]'
)


def a_ledger(outcome: TaskOutcome = TaskOutcome.ON_TIME, *wrong: str) -> TaskLedger:
    happened = [
        (5, TaskAwarded(TASK, 0, ALICE, ALICE, 100, 9)),
        (8, MilestoneCounted(TASK, 1, b"c" * 32)),
        (12, SlotSettled(TASK, 0, ALICE, outcome, 100, 0)),
    ]
    sums = TaskSums([TaskMove(12, ALICE, 98, "ON_TIME")], wrong=list(wrong))
    return TaskLedger(12, {TASK: EventTrace(happened)}, {TASK: sums})


def ended(
    monkeypatch: pytest.MonkeyPatch, ledger: TaskLedger, *, sells: Any = None, is_right: str = "true"
) -> dict[str, Any]:
    """Return the demo's report of a task whose customer's program does as `sells`."""

    @contextlib.contextmanager
    def following(_: str) -> Iterator[TaskLedger]:
        yield ledger

    monkeypatch.setattr(steps, "following", following)
    monkeypatch.setattr(task_sale, "let_bid", lambda *_: None)
    monkeypatch.setattr(task_sale, "sell_task", sells or (lambda *_: TaskSale(TASK)))
    monkeypatch.setattr(task_sale, "ask_about_task", lambda *_, **__: CHECKS % is_right)
    net = Devnet(Path(), (NodeLayout("Alice", True, Ports(1, 2, 3, 4), ""),))
    return steps.DemoTask(Stage(net, Narrator(1))).wait_for_end()


def test_a_task_that_went_well_is_told_with_what_it_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    report = ended(monkeypatch, a_ledger())
    assert report["failures"] == []
    assert (report["milestones"], report["earned_grains"], report["outcomes"]) == (1, {"Alice": "98"}, ["ON_TIME"])


@pytest.mark.parametrize(
    ("ledger", "is_right", "said"),
    [
        (a_ledger(TaskOutcome.DIED), "true", "a slot ended as DIED"),
        (a_ledger(TaskOutcome.ON_TIME, "a grain too many"), "true", "a grain too many"),
        (a_ledger(), "false", "does not confirm root"),
        (a_ledger(), "null", "does not confirm root"),
    ],
)
def test_what_went_wrong_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, ledger: TaskLedger, is_right: str, said: str
) -> None:
    assert [said in failure for failure in ended(monkeypatch, ledger, is_right=is_right)["failures"]] == [True]


def test_a_task_whose_program_fails_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> TaskSale:
        raise DevnetError("`ogpu task submit` failed")

    (failure,) = ended(monkeypatch, a_ledger(), sells=fails)["failures"]
    assert "`ogpu task submit` failed" in failure
