"""Providers that won a slot and do not start, or die.

Invariants: a failed provider is settled and released before another takes its place. Counted milestones are paid once.
A provider that takes over has the rest of the work as its task, at its own price for it. Work that no runner-up takes
over goes to auction again.
"""

from dataclasses import replace

from gpu_tasks.market.training import money, purses
from gpu_tasks.market.training.events import StandbyAsked, TaskAwarded
from gpu_tasks.market.training.life import ending
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import is_by_time
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import Task, TaskState, kept_step, slot_of, with_slot


def not_started(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """End the time to start: late providers lose a part of their collateral, and the runner-up may take one place."""
    late_places = [place for place, slot in enumerate(task.slots) if not slot.started_at]
    assert late_places, "a task with all slots started is running"
    for place in late_places:
        was_standby = task.slots[place].was_standby
        outcome = TaskOutcome.STANDBY_NOT_STARTED if was_standby else TaskOutcome.NOT_STARTED
        purses.settle(market, task_id, task, place, outcome)
    # There is one runner-up: it cannot complete a gang that lacks two.
    if len(late_places) == 1 and task.standby is not None and task.standby.is_bound:
        replace_slot(market, task_id, task, late_places[0])
    else:
        auction_again(market, task_id, task)


def provider_died(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """End the leg of a task whose next milestone or interval was not stated in time: its provider has died or left."""
    slowest_step, failure_outcome = kept_step(task), TaskOutcome.LEFT if is_by_time(task.order) else TaskOutcome.DIED
    for place, slot in enumerate(task.slots):
        # A provider that is ahead of the slowest has kept its promise.
        has_died = slot.reported == slowest_step and slot.result is None
        purses.settle(market, task_id, task, place, failure_outcome if has_died else TaskOutcome.PARTNER_DIED)
    hand_over(market, task_id, task)


def hand_over(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """End the leg of a task with settled slots: the runner-up gets the rest, is asked for it, or it is sold."""
    standby = task.standby
    if task.terms.slots > 1 or standby is None:
        auction_again(market, task_id, task)
        return
    rest_standby = replace(
        standby,
        price=money.remaining(standby.price, task.done, task.milestones),
        promised=money.remaining_blocks(standby.promised, task.done, task.milestones),
    )
    if standby.is_bound:
        replace_slot(market, task_id, ending.next_leg(replace(task, standby=rest_standby)), 0)
        return
    ending.free_slots(market, task_id, task)
    last_block = market.height + task.windows.ask
    task = replace(ending.next_leg(task), state=TaskState.ASKING, deadline=last_block, slots=(), standby=rest_standby)
    market.put(task_id, task)
    market.emit(StandbyAsked(task_id, standby.provider, last_block))


def replace_slot(market: TrainingStorage, task_id: bytes, task: Task, place: int) -> None:
    """Give the place of a failed provider to the bound runner-up, with a full window to start."""
    failed_slot, standby = task.slots[place], task.standby
    assert standby is not None, "a replaced slot has a standby"
    ending.set_free(market, task_id, task, failed_slot.provider, failed_slot.device)
    # The provider may have another slot of the gang, and keeps its duty then.
    if all(
        slot.provider != failed_slot.provider for other_place, slot in enumerate(task.slots) if other_place != place
    ):
        del market.duties[failed_slot.provider, task_id]
    last_block = market.height + task.windows.start
    task = with_slot(task, place, slot_of(standby, was_standby=True))
    market.put(task_id, replace(task, state=TaskState.STARTING, deadline=last_block, standby=None))
    market.emit(TaskAwarded(task_id, place, standby.provider, standby.device, standby.price, last_block))


def auction_again(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Release standby and slots, and auction the rest."""
    task = ending.release_standby(market, task_id, task)
    ending.free_slots(market, task_id, task)
    ending.reopen(market, task_id, task)
