"""A replica's place, by chain and journal: its commitment, its opening, and its silence before."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.training.bids import DRAWS_FROM, BidOffer
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.replicas import replica_commitment
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.tasks import Slot, Task, TaskResult, TaskState
from gpu_tasks.provider.journal.task_records import BidBasis, TaskEntry
from gpu_tasks.provider.tasks.replica_places import (
    bound_result,
    is_of_leg,
    is_to_be_bound,
    is_to_be_opened,
    may_offer,
    seeks_devices,
    why_offer_over,
)
from priced_tasks import a_task

ME, GENESIS, TASK, SALT = b"m" * 32, b"g" * 32, b"t" * 32, b"z" * 32
RESULT = TaskResult(b"r" * 32, b"b" * 32, 3)
SLOT = Slot(ME, b"d" * 32, 5, 40, 7)
ENTRY = TaskEntry(
    b"d" * 32, BidBasis(b"h" * 32, b"i" * 32, b"b" * 32), BidOffer(5, 40, 7), b"s" * 32,
    result=RESULT, result_salt=SALT,
)  # fmt: skip


def copies(state: TaskState, slot: Slot = SLOT, **changed: Any) -> Task:
    """Return three replicas, one of them this provider's."""
    others = (Slot(b"1" * 32, b"1" * 32, 5, 40, 7), Slot(b"2" * 32, b"2" * 32, 5, 40, 7))
    task = a_task(state=state, **{"slots": (*others, slot), "draws": 2, **changed})
    return replace(task, order=replace(task.order, checked_by=CheckedBy.REPLICATED))


@pytest.mark.parametrize(
    ("slot", "entry", "place", "is_due"),
    [
        ({}, {}, 2, True),
        ({}, {}, None, False),
        ({"commitment": b"c" * 32}, {}, 2, False),
        ({"outcome": TaskOutcome.NOT_STARTED}, {}, 2, False),
        ({}, {"result": None}, 2, False),
        ({}, {"result_salt": None}, 2, False),
    ],
)
def test_one_is_bound_once_with_a_result_and_its_salt(
    slot: dict[str, Any], entry: dict[str, Any], place: int | None, *, is_due: bool
) -> None:
    task = copies(TaskState.RUNNING, replace(SLOT, **slot))
    assert is_to_be_bound(task, place, replace(ENTRY, **entry)) is is_due


@pytest.mark.parametrize(
    ("slot", "state", "is_due"),
    [
        ({"commitment": b"c" * 32}, TaskState.OPENING, True),
        ({"commitment": b"c" * 32}, TaskState.RUNNING, False),
        ({}, TaskState.OPENING, False),
        ({"commitment": b"c" * 32, "result": RESULT}, TaskState.OPENING, False),
        ({"commitment": b"c" * 32, "outcome": TaskOutcome.DIED}, TaskState.OPENING, False),
    ],
)
def test_what_one_is_bound_to_is_opened_once_when_all_are(
    slot: dict[str, Any], state: TaskState, *, is_due: bool
) -> None:
    assert is_to_be_opened(copies(state, replace(SLOT, **slot)), 2, ENTRY) is is_due


def test_nothing_of_a_result_is_said_before_it_is_opened() -> None:
    sealed = replica_commitment(GENESIS, TASK, 2, ME, RESULT, SALT)
    assert bound_result(GENESIS, (TASK, 1), 2, SLOT, ENTRY) == TaskResult(sealed, bytes(32), 0)


def test_an_offer_is_made_once_more_only_while_there_is_room() -> None:
    newest, sought = DRAWS_FROM + 2, copies(TaskState.VOLUNTEERING)
    full = replace(sought, volunteers=BIDS_MAX)
    assert may_offer(sought, newest, is_again=True)
    assert not may_offer(sought, newest - 1, is_again=False)
    assert may_offer(full, newest, is_again=False), "the chain has the larger bonds"
    assert not may_offer(full, newest, is_again=True)
    assert not may_offer(replace(sought, deadline=0), newest, is_again=False)


def test_an_offer_to_an_earlier_draw_may_have_a_place_in_the_leg() -> None:
    task = copies(TaskState.RUNNING)
    assert [number for number in range(4) if is_of_leg(task, DRAWS_FROM + number)] == [1, 2]
    assert [number for number in range(4) if is_of_leg(task, number)] == [1]


def test_an_offer_that_is_there_waits_for_its_draw() -> None:
    sought, newest = copies(TaskState.VOLUNTEERING), DRAWS_FROM + 2
    assert why_offer_over(sought, newest, None, sought.deadline + 1, is_there=True) == ""
    assert "was too late" in why_offer_over(sought, newest, None, sought.deadline + 1, is_there=False)
    assert why_offer_over(sought, newest, None, sought.deadline, is_there=False) == ""
    assert "was too late" in why_offer_over(replace(sought, deadline=0), newest, None, 1, is_there=False)
    assert why_offer_over(copies(TaskState.RUNNING), newest, None, 1, is_there=True) == "other providers were drawn"
    assert why_offer_over(copies(TaskState.RUNNING), newest, 2, 1, is_there=True) == ""


def test_devices_are_sought_until_the_beacon_is_awaited_and_of_who_has_no_place() -> None:
    sought = copies(TaskState.VOLUNTEERING)
    assert seeks_devices(sought, b"?" * 32)
    assert not seeks_devices(sought, ME)
    assert not seeks_devices(replace(sought, deadline=0), b"?" * 32)
    assert not seeks_devices(copies(TaskState.RUNNING), b"?" * 32)
