"""The next step about a task from chain and journal, state by state."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.bids import DRAWS_FROM, BidOffer, TaskBid
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.reputation import TrackRecord
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.tasks import Milestone, Slot, Standby, TaskResult, TaskState
from gpu_tasks.market.training.terms import Bid
from gpu_tasks.provider.journal.task_records import BidBasis, FoundMilestone, TaskEntry, TaskStep
from gpu_tasks.provider.tasks.places import (
    OnHand,
    OwnTask,
    is_about,
    is_held,
    next_step,
    why_over,
    why_waiting,
)
from priced_tasks import a_task

ME, OTHER, DEVICE = b"m" * 32, b"o" * 32, b"d" * 32
KEY = (b"t" * 32, 1)
OFFER = BidOffer(5, 50, 100)
SEALED = TaskBid(ME, DeviceClass.CPU, b"c" * 32, 1)
OPENED = replace(SEALED, opened=Bid(ME, DEVICE, DeviceClass.CPU, 5, 50, 100, TrackRecord()))
MINE = Slot(ME, DEVICE, 5, 50, 100)
THEIRS = Slot(OTHER, b"e" * 32, 5, 50, 100)
STANDBY = Standby(ME, DEVICE, 6, 50, 100)
FIRST = Milestone(1, b"r" * 32, 7, b"b" * 32)
RESULT = TaskResult(b"r" * 32, b"b" * 32, 7)
READY = OnHand(has_input=True)


def entry(milestones: Sequence[Milestone] = (), **changed: Any) -> TaskEntry:
    order, found = a_task().order, tuple(FoundMilestone(each, Usage(0, 0, 0, 0, 0, 0)) for each in milestones)
    basis = BidBasis(order.task_hash, order.input_root, order.input_blob)
    return TaskEntry(DEVICE, basis, OFFER, b"s" * 32, found=found, **changed)


def asked(
    state: TaskState,
    journal: TaskEntry | None = None,
    bid: TaskBid | None = OPENED,
    on_hand: OnHand = READY,
    **task: Any,
) -> TaskStep | None:
    own = OwnTask(KEY, a_task(state=state, deadline=20, **task), bid)
    return next_step(own, journal or entry(), ME, on_hand, 10)


def test_a_bid_that_is_not_in_is_committed_to() -> None:
    assert asked(TaskState.COMMITTING, bid=None) is TaskStep.COMMIT
    assert asked(TaskState.COMMITTING, bid=SEALED) is None


def test_it_is_opened_when_nobody_can_commit_any_more() -> None:
    assert asked(TaskState.REVEALING, bid=SEALED) is TaskStep.REVEAL
    assert asked(TaskState.REVEALING, bid=OPENED) is None
    assert asked(TaskState.REVEALING, bid=None) is None
    assert asked(TaskState.AWARDING) is None


def test_a_winner_starts_once_its_input_is_there() -> None:
    assert asked(TaskState.STARTING, slots=(MINE,)) is TaskStep.START
    assert asked(TaskState.STARTING, slots=(replace(MINE, started_at=9),)) is None
    assert asked(TaskState.STARTING, slots=(THEIRS,)) is None
    assert asked(TaskState.STARTING, slots=(MINE,), on_hand=OnHand()) is None


def test_an_input_that_is_nowhere_is_reported_before_it_is_too_late_and_never_after_a_start() -> None:
    own = OwnTask(KEY, a_task(state=TaskState.STARTING, deadline=20, slots=(MINE,)), OPENED)
    assert next_step(own, entry(), ME, OnHand(), 15) is None
    assert next_step(own, entry(), ME, OnHand(), 16) is TaskStep.REPORT
    assert next_step(own, entry(sent=(TaskStep.START,)), ME, OnHand(), 16) is TaskStep.START
    assert next_step(own, entry(sent=(TaskStep.REPORT,)), ME, READY, 16) is TaskStep.REPORT


def test_milestones_and_the_result_are_stated_as_the_journal_has_them() -> None:
    running = TaskState.RUNNING
    found, done = entry([FIRST]), entry([FIRST], result=RESULT)
    assert asked(running, slots=(MINE,)) is None
    assert asked(running, found, slots=(MINE,)) is TaskStep.MILESTONE
    assert asked(running, found, slots=(replace(MINE, reported=1),)) is None
    assert asked(running, done, slots=(replace(MINE, reported=2),)) is None
    assert asked(running, done, slots=(replace(MINE, reported=3),)) is TaskStep.FINISH
    assert asked(running, done, slots=(replace(MINE, reported=4, result=RESULT),)) is None


def test_a_milestone_has_its_time_to_be_held_before_a_newer_one_is_stated() -> None:
    found, slot = entry([FIRST, replace(FIRST, number=2)]), replace(MINE, reported=1)
    steps = {
        reported_at: asked(TaskState.RUNNING, found, slots=(slot,), reported_at=reported_at) for reported_at in (6, 7)
    }
    assert steps == {6: TaskStep.MILESTONE, 7: None}
    assert asked(TaskState.RUNNING, found, slots=(slot,), reported_at=10, done=1) is TaskStep.MILESTONE


def test_an_offer_that_yielded_to_a_larger_bond_is_not_made_again_while_the_draw_is_full() -> None:
    draw = (KEY[0], DRAWS_FROM + 1)
    for volunteers, sent, step in (
        (BIDS_MAX, (), TaskStep.VOLUNTEER),
        (BIDS_MAX - 1, (TaskStep.VOLUNTEER,), TaskStep.VOLUNTEER),
        (BIDS_MAX, (TaskStep.VOLUNTEER,), None),
    ):
        sought = a_task(state=TaskState.VOLUNTEERING, deadline=20, draws=1, volunteers=volunteers, slots=(THEIRS,))
        assert next_step(OwnTask(draw, sought, None), entry(sent=sent), ME, READY, 10) is step


def test_a_replica_that_is_out_opens_nothing() -> None:
    bound = replace(MINE, commitment=b"c" * 32)
    found = entry(result=RESULT, result_salt=b"s" * 32)
    assert asked(TaskState.OPENING, found, slots=(bound,)) is TaskStep.OPEN
    gone = replace(bound, outcome=TaskOutcome.DIED)
    assert asked(TaskState.OPENING, found, slots=(gone, THEIRS)) is None


def test_milestones_are_counted_over_all_legs() -> None:
    rest = replace(a_task(deadline=20), state=TaskState.RUNNING, slots=(MINE,), behind=1, milestones=3)
    own = OwnTask(KEY, rest, OPENED)
    assert next_step(own, entry([FIRST]), ME, READY, 10) is None
    second = replace(FIRST, number=2)
    assert next_step(own, entry([second]), ME, READY, 10) is TaskStep.MILESTONE


def test_partners_keep_step() -> None:
    found = entry([FIRST, replace(FIRST, number=2)])
    ahead, level = (replace(MINE, reported=1), THEIRS), (replace(MINE, reported=1), replace(THEIRS, reported=1))
    assert asked(TaskState.RUNNING, found, slots=ahead) is None
    assert asked(TaskState.RUNNING, found, slots=level) is TaskStep.MILESTONE


def test_who_stands_by_holds_what_it_has_checked() -> None:
    theirs = (replace(THEIRS, reported=1, milestone=FIRST),)
    assert asked(TaskState.RUNNING, slots=theirs, standby=STANDBY) is None
    held = OnHand(has_input=True, held=1)
    assert asked(TaskState.RUNNING, slots=theirs, standby=STANDBY, on_hand=held) is TaskStep.HOLD
    assert asked(TaskState.RUNNING, slots=theirs, standby=STANDBY, on_hand=held, done=1) is None
    assert asked(TaskState.RUNNING, slots=theirs, on_hand=held) is None
    newer = (replace(THEIRS, reported=2, milestone=replace(FIRST, number=2)),)
    assert asked(TaskState.RUNNING, slots=newer, standby=STANDBY, on_hand=held) is None


def test_what_counts_of_an_earlier_leg_is_not_held_again() -> None:
    theirs = (replace(THEIRS, reported=1, milestone=replace(FIRST, number=3)),)
    held = OnHand(has_input=True, held=3)
    for done, step in ((0, TaskStep.HOLD), (1, None)):
        rest = {"behind": 2, "milestones": 2, "done": done}
        assert asked(TaskState.RUNNING, None, OPENED, held, slots=theirs, standby=STANDBY, **rest) is step


def test_a_milestone_of_which_partners_say_different_things_is_not_held() -> None:
    first, second = replace(THEIRS, milestone=FIRST), replace(THEIRS, milestone=replace(FIRST, root=b"x" * 32))
    held = OnHand(has_input=True, held=1)
    assert asked(TaskState.RUNNING, slots=(first, second), standby=STANDBY, on_hand=held) is None


def test_who_is_asked_takes_over_if_it_can_go_on() -> None:
    assert asked(TaskState.ASKING, standby=replace(STANDBY, is_bound=False)) is TaskStep.START
    assert asked(TaskState.ASKING, standby=STANDBY, on_hand=OnHand()) is None
    assert asked(TaskState.ASKING, standby=replace(STANDBY, provider=OTHER)) is None
    assert asked(TaskState.ASKING, standby=replace(STANDBY, device=OTHER)) is None, "with another device"


def test_nothing_is_sent_that_no_window_takes() -> None:
    own = OwnTask(KEY, a_task(state=TaskState.STARTING, deadline=20, slots=(MINE,)), OPENED)
    assert next_step(own, entry(), ME, READY, 19) is TaskStep.START
    assert next_step(own, entry(), ME, READY, 20) is None
    assert next_step(replace(own, task=None), entry(), ME, READY, 19) is None
    assert next_step(replace(own, key=(KEY[0], 2)), entry(), ME, READY, 19) is None


@pytest.mark.parametrize(
    ("bid", "task", "over"),
    [
        (None, {"state": TaskState.COMMITTING}, False),
        (None, {"state": TaskState.COMMITTING, "deadline": 9}, True),
        (SEALED, {"state": TaskState.COMMITTING, "deadline": 9}, False),
        (None, {"state": TaskState.REVEALING}, True),
        (SEALED, {"state": TaskState.REVEALING}, False),
        (SEALED, {"state": TaskState.AWARDING}, True),
        (OPENED, {"state": TaskState.AWARDING}, False),
        (OPENED, {"state": TaskState.STARTING, "slots": (THEIRS,)}, True),
        (OPENED, {"state": TaskState.STARTING, "slots": (MINE,)}, False),
        (OPENED, {"state": TaskState.RUNNING, "slots": (THEIRS,), "standby": STANDBY}, False),
        (OPENED, {"state": TaskState.CLAIMED, "deadline": 0, "slots": (MINE,)}, False),
        (OPENED, {"state": TaskState.CLAIMED, "slots": (replace(MINE, outcome=TaskOutcome.ON_TIME),)}, False),
        (OPENED, {"state": TaskState.DISPUTED, "deadline": 0, "slots": (MINE,)}, False),
        (OPENED, {"state": TaskState.ENDED, "slots": (MINE,)}, True),
        (OPENED, {"state": TaskState.COMMITTING, "auction": 2}, True),
    ],
)
def test_when_nothing_is_left_to_do(bid: TaskBid | None, task: dict[str, Any], over: bool) -> None:
    own = OwnTask(KEY, a_task(**{"deadline": 20, **task}), bid)
    assert bool(why_over(own, entry(), ME, 10)) is over


def test_every_state_that_waits_says_why() -> None:
    said = set()
    for state in TaskState:
        slots = () if state <= TaskState.AWARDING or state is TaskState.ASKING else (MINE,)
        own = OwnTask(KEY, a_task(state=state, deadline=20, slots=slots, standby=STANDBY), OPENED)
        said.add(why_waiting(own, entry(), ME))
    assert len(said) == len(TaskState) - 1, "disputed and ended alone are alike, and what has ended is over"


@pytest.mark.parametrize("state", [TaskState.CLAIMED, TaskState.DISPUTED])
def test_a_claimed_or_disputed_task_has_no_step_and_names_no_block(state: TaskState) -> None:
    stated = replace(MINE, result=RESULT)
    assert asked(state, entry(result=RESULT), slots=(stated,)) is None
    own = OwnTask(KEY, a_task(state=state, deadline=0, slots=(stated,)), OPENED)
    assert "block" not in why_waiting(own, entry(), ME)


def test_another_task_than_was_bid_for_is_none_of_it() -> None:
    assert is_about(a_task(), entry())
    for name in ("task_hash", "input_root", "input_blob"):
        assert not is_about(a_task(**{name: b"x" * 32}), entry())


def test_a_checkpoint_is_held_under_the_root_that_all_have_stated() -> None:
    """The earlier provider stated another root under the same number."""
    task = a_task(state=TaskState.RUNNING, slots=(replace(THEIRS, milestone=FIRST),))
    assert is_held(task, FIRST)
    assert is_held(task, replace(FIRST, blob=b"x" * 32, metric=1)), "it is sealed anew, and the same"
    assert not is_held(task, replace(FIRST, root=b"x" * 32))
    assert not is_held(task, replace(FIRST, number=2))
    assert not is_held(task, None)
    assert not is_held(a_task(state=TaskState.RUNNING, slots=(THEIRS,)), FIRST)
    apart = (replace(THEIRS, milestone=FIRST), replace(MINE, milestone=replace(FIRST, root=b"x" * 32)))
    assert not is_held(a_task(state=TaskState.RUNNING, slots=apart), FIRST)


# ------------------------------------------------------------------------------------------------------- sold time

SOLD = replace(MINE, promised=12, started_at=1)
LOST = OnHand(has_input=True, is_lost=True)


def selling(
    checked_by: CheckedBy = CheckedBy.METERED,
    journal: TaskEntry | None = None,
    on_hand: OnHand = READY,
    newest: int = 3,
    **task: Any,
) -> TaskStep | None:
    """Return four intervals of three blocks, which began in block 1."""
    order = replace(a_task().order, checked_by=checked_by, milestones=4, blocks_max=12)
    state = {"state": TaskState.RUNNING, "deadline": 30, "slots": (SOLD,), "started_at": 1, "milestones": 4, **task}
    own = OwnTask(KEY, a_task(order=order, **state), OPENED)
    return next_step(own, journal or entry(), ME, on_hand, newest)


def test_an_interval_is_stated_once_it_is_over_and_noted() -> None:
    noted = entry([FIRST])
    assert selling(journal=noted, newest=2) is None
    assert selling(journal=noted, newest=3) is TaskStep.MILESTONE
    assert selling(newest=3) is None
    assert selling(journal=noted, newest=3, slots=(replace(SOLD, reported=1),), owed=1) is None
    last = replace(SOLD, reported=3)
    assert selling(journal=entry([replace(FIRST, number=4)]), newest=20, slots=(last,), owed=3) is None


def test_the_end_of_a_job_is_stated_at_once_and_that_of_a_lease_when_its_time_is_up() -> None:
    done = entry(result=RESULT)
    assert selling(journal=done, newest=1) is TaskStep.FINISH
    assert selling(CheckedBy.LEASED, done, newest=11) is None
    assert selling(CheckedBy.LEASED, done, newest=12) is TaskStep.FINISH


def test_who_has_lost_the_program_leaves_unless_its_result_is_there() -> None:
    assert selling(on_hand=LOST) is TaskStep.LEAVE
    assert selling(journal=entry(sent=(TaskStep.LEAVE,))) is TaskStep.LEAVE
    assert selling(journal=entry(result=RESULT), on_hand=LOST) is TaskStep.FINISH
    assert selling(on_hand=LOST, slots=(THEIRS,)) is None


def test_an_interval_that_was_given_is_stated_before_who_has_lost_the_program_leaves() -> None:
    noted = entry([FIRST])
    assert selling(journal=noted, on_hand=LOST, newest=2) is TaskStep.LEAVE, "it is not over yet"
    assert selling(journal=noted, on_hand=LOST) is TaskStep.MILESTONE
    assert selling(journal=noted, on_hand=LOST, slots=(replace(SOLD, reported=1),), owed=1) is TaskStep.LEAVE
    assert selling(journal=entry([FIRST], sent=(TaskStep.LEAVE,)), on_hand=LOST) is TaskStep.LEAVE


def test_what_is_missing_here_is_not_reported_as_a_missing_input() -> None:
    own = OwnTask(KEY, a_task(state=TaskState.STARTING, deadline=20, slots=(MINE,)), OPENED)
    assert next_step(own, entry(), ME, OnHand(may_report=False), 16) is None
    assert next_step(own, entry(), ME, OnHand(may_report=True), 16) is TaskStep.REPORT


def test_why_time_that_is_sold_waits() -> None:
    order = replace(a_task().order, checked_by=CheckedBy.METERED, milestones=4, blocks_max=12)
    task = a_task(order=order, state=TaskState.RUNNING, slots=(SOLD,), milestones=4)
    said = why_waiting(OwnTask(KEY, task, OPENED), entry(), ME)
    assert said.endswith("interval 1 of 4 is paid at its end")
