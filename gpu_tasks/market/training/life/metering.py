"""Tasks that are paid by time: the price is earned by the block, and paid interval by interval.

Invariants: an interval is paid once, after it is over and its provider has stated that it is still there. The unpaid
rest stays the customer's. Each side may leave at any time. A side loses at most one interval by the other's leaving.
The leaver pays in addition: a customer its bond, a provider a part of the price out of its collateral.
"""

from dataclasses import replace

from gpu_tasks.market.training import purses
from gpu_tasks.market.training.events import NotDueYet, WrongTaskState
from gpu_tasks.market.training.life import ending, failing
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy, is_by_time
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import Milestone, Task, TaskResult, TaskState, interval_end, paid_blocks, with_slot
from runtime.frame.pallet import ensure

PLACE = 0
"""The only place: time is bought from one device."""


def ensure_interval_over(task: Task, height: int) -> None:
    """Raise NotDueYet while the interval to be paid still runs."""
    # Or a provider would be paid for all of its time in the first blocks, and leave.
    ensure(height >= interval_end(task), NotDueYet)


def pay_interval(market: TrainingStorage, task_id: bytes, task: Task, milestone: Milestone) -> None:
    """Pay an interval that is over. The first payment releases the runner-up."""
    intervals_done = milestone.number - task.behind
    purses.settle(market, task_id, task, PLACE, TaskOutcome.INTERVAL_PAID, due=paid_blocks(task, intervals_done))
    slot = replace(task.slots[PLACE], reported=intervals_done, milestone=milestone)
    # Both counts move, so no interval is paid a second time with the next one.
    task = replace(with_slot(task, PLACE, slot), done=intervals_done, owed=intervals_done, reported_at=market.height)
    task = ending.release_standby(market, task_id, task)
    market.put(task_id, replace(task, deadline=interval_end(task) + task.windows.grace))


def ensure_may_end(task: Task, height: int) -> None:
    """Raise NotDueYet for a lease whose time is not up: the customer has bought it, even after its program ends."""
    is_time_up = height >= task.started_at + task.slots[PLACE].promised
    ensure(is_time_up or task.order.checked_by is not CheckedBy.LEASED, NotDueYet)


def end_time(market: TrainingStorage, task_id: bytes, task: Task, final_result: TaskResult) -> None:
    """End bought time: pay the elapsed part of the current interval, and end the task."""
    blocks_passed = min(market.height - task.started_at, paid_blocks(task, task.owed + 1))
    purses.settle(market, task_id, task, PLACE, TaskOutcome.TIME_OVER, due=blocks_passed)
    slot = replace(task.slots[PLACE], finished_at=market.height, result=final_result, outcome=TaskOutcome.TIME_OVER)
    task = ending.release_standby(market, task_id, replace(with_slot(task, PLACE, slot), finished_at=market.height))
    ending.free_slots(market, task_id, task)
    ending.end(market, task_id, task, TaskOutcome.TIME_OVER)


def leave(market: TrainingStorage, task_id: bytes, account: bytes) -> None:
    """Leave as the provider: lose the unpaid rest and a part of the collateral. Others may take over the rest."""
    task, _ = market.worked(task_id, PLACE, account)
    ensure(is_by_time(task.order), WrongTaskState)
    market.ensure_in(task, TaskState.RUNNING)
    purses.settle(market, task_id, task, PLACE, TaskOutcome.LEFT)
    failing.hand_over(market, task_id, task)
