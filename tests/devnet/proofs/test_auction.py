"""The bars of tasks at auction fail where they should: each with a record that breaks it."""

from dataclasses import replace
from typing import Any

import pytest

from devnet.proofs.auction import (
    NOT_SERVED,
    SALES,
    STRUCK_AT,
    AuctionedTask,
    SoldTask,
    UndisturbedRun,
    judge_sale,
    unverified_rows,
)
from devnet.stage.actors.task_sale import People
from devnet.stage.measuring.ledger import EventTrace
from devnet.stage.measuring.task_ledger import TaskLedger, TaskSums
from gpu_tasks.client.tasks.orders import load
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training.bids import BidOffer
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import TaskResult

TASK, ROOT, STATE = b"t" * 32, b"r" * 32, b"the last state"
ALICE, BOB, CHARLIE = b"a" * 32, b"b" * 32, b"c" * 32
WANTED = UndisturbedRun(ROOT, STATE)
RESULT = {"root": "0x" + ROOT.hex()}
STANDBY = next(scene for scene in SALES if scene.name == "standby")
Happened = list[tuple[int, Any]]


def a_course() -> Happened:
    """Return a course in which Alice wins and dies after a milestone, and Bob continues."""
    bidders = (ALICE, BOB, CHARLIE)
    return [
        (10, ev.TaskSubmitted(TASK, b"f" * 32, b"w" * 32, 100, 1, 130)),
        *((12, ev.BidCommitted(TASK, who, who)) for who in bidders),
        (22, ev.BidsClosed(TASK, 3, 33)),
        *((23, ev.BidRevealed(TASK, who, who, BidOffer(1, 2, 3))) for who in bidders),
        (36, ev.SlotStarted(TASK, 0, ALICE)),
        (37, ev.TaskRunning(TASK)),
        (39, ev.MilestoneCounted(TASK, 3, b"f" * 32)),
        (70, ev.SlotSettled(TASK, 0, ALICE, TaskOutcome.DIED, 25, 6)),
        (73, ev.SlotStarted(TASK, 0, BOB)),
        (90, ev.ResultStated(TASK, 0, TaskResult(ROOT, ROOT, 7))),
        (97, ev.SlotSettled(TASK, 0, BOB, TaskOutcome.ON_TIME, 30, 0)),
        (97, ev.TaskEnded(TASK, TaskOutcome.ON_TIME, 1)),
    ]


def judged(
    happened: Happened, scene: AuctionedTask = STANDBY, *, result: Any = RESULT, state: bytes = STATE, gone: int = 0
) -> SoldTask:
    ledger = TaskLedger(100, {TASK: EventTrace(happened)}, {TASK: TaskSums()}, {}, dict.fromkeys(range(101), 0.0))
    ledger.moments |= {37: 27.5, 97: 87.25}
    people = People({"Alice": (ALICE,)}, {"Alice": 100}, {"Alice": 100 - gone})
    return judge_sale(scene, TASK, ledger, people, result, state, WANTED, ["Alice"] if scene.kills_winner else [])


def test_a_course_as_it_should_be_breaks_no_bar() -> None:
    finding = judged(a_course())
    assert finding.failures == []
    assert (finding.slots_after_reveals, finding.seconds_until_running, finding.seconds_until_paid) == (4, 27.5, 87.2)
    assert finding.outcomes == ["DIED", "ON_TIME"]


def test_late_is_a_result_too() -> None:
    course = a_course()
    course[-2] = (97, replace(course[-2][1], outcome=TaskOutcome.LATE))
    assert judged(course).failures == []


def without(kind: type[Any]) -> Happened:
    return [(height, event) for height, event in a_course() if not isinstance(event, kind)]


@pytest.mark.parametrize(
    ("happened", "said"),
    [
        (a_course()[:1] + a_course()[2:], "2 bids were committed to"),
        ([*a_course(), (99, ev.BidEnded(TASK, CHARLIE, CHARLIE, 10))], "burned 10 grains"),
        (without(ev.SlotSettled), "its slots ended as []"),
        ([*a_course(), (98, ev.TaskReopened(TASK, 2, 50, 3))], "auctioned 2 times"),
        (without(ev.TaskEnded), "it ended as []"),
        ([*a_course(), (98, ev.TaskEnded(TASK, TaskOutcome.NO_AWARD, 1))], "it ended as ['ON_TIME', 'NO_AWARD']"),
        (without(ev.MilestoneCounted), "no milestone counted"),
        (without(ev.SlotStarted), "has more than one of its slots"),
        (without(ev.ResultStated), "were stated"),
        ([*a_course(), (91, ev.ResultStated(TASK, 0, TaskResult(b"x" * 32, ROOT, 7)))], "were stated"),
    ],
)
def test_what_no_such_course_shows_is_said(happened: Happened, said: str) -> None:
    assert any(said in failure for failure in judged(happened).failures)


def test_who_was_killed_with_nothing_behind_it_was_not_killed_midway() -> None:
    course = a_course()
    course[-5] = (70, ev.SlotSettled(TASK, 0, ALICE, TaskOutcome.DIED, 0, 6))
    assert any("no milestone behind it" in failure for failure in judged(course).failures)


def test_another_root_another_state_and_a_grain_are_told() -> None:
    assert any("shows the root" in failure for failure in judged(a_course(), result={"root": "0x00"}).failures)
    assert any("last state" in failure for failure in judged(a_course(), state=b"another").failures)
    assert any("Alice has -1 grains more" in failure for failure in judged(a_course(), gone=1).failures)


def test_what_verify_cannot_confirm_is_said_but_of_auctions_that_are_past() -> None:
    rows = [{"what": f"auction {number}", "is_right": None} for number in (1, 2)]
    assert unverified_rows(rows, 2) == ["`ogpu task verify` compares no auction 2"]
    assert len(unverified_rows(rows, 1)) == 2
    assert unverified_rows([{"what": "auction 1", "is_right": False}], 2) != []
    assert unverified_rows([{"what": "results", "is_right": True}], 1) == []


def test_the_files_of_the_scenes_leave_somebody_to_kill_midway() -> None:
    for scene in SALES:
        file = load(scene.file).task
        assert file.seed is not None
        assert file.milestones > STRUCK_AT + 1 or not scene.kills_winner
    assert load(NOT_SERVED).task.classes
    assert len({scene.file for scene in SALES if scene.name != "gang"}) == 1
