"""Changes of mind: cancelled and stopped tasks.

Invariants: before the award, only the customer loses anything. Afterwards it loses its bond, half of it to the
provider.
"""

from gpu_tasks.market.training import purses
from gpu_tasks.market.training.events import WrongTaskState
from gpu_tasks.market.training.life import ending
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import is_by_time
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import Task, TaskState, has_bidding, paid_blocks
from runtime.frame.pallet import ensure


def cancel(market: TrainingStorage, task_id: bytes, customer: bytes) -> None:
    """Cancel a task that has not begun to run."""
    task = market.customers(task_id, customer)
    if has_bidding(task) or task.state is TaskState.ASKING:
        _settle_all_slots(market, task_id, task, TaskOutcome.CANCELLED_BEFORE_AWARD)
    else:
        ensure(task.state in (TaskState.STARTING, TaskState.VOLUNTEERING), WrongTaskState)
        _settle_all_slots(market, task_id, task, TaskOutcome.CANCELLED_BEFORE_START)


def stop(market: TrainingStorage, task_id: bytes, customer: bytes) -> None:
    """Stop a running task: the elapsed part is paid, or for bought time the whole current interval."""
    task = market.customers(task_id, customer)
    market.ensure_in(task, TaskState.RUNNING)
    if is_by_time(task.order):
        _settle_all_slots(market, task_id, task, TaskOutcome.TIME_STOPPED, due_blocks=paid_blocks(task, task.owed + 1))
    else:
        _settle_all_slots(market, task_id, task, TaskOutcome.CANCELLED_RUNNING)


def _settle_all_slots(
    market: TrainingStorage, task_id: bytes, task: Task, outcome: TaskOutcome, *, due_blocks: int = 0
) -> None:
    """End every slot with the same outcome, and the task."""
    if not task.slots:
        for place in range(task.terms.slots):
            purses.burn_for_cancelling(market, task_id, task, place)
    for place, slot in enumerate(task.slots):
        # A replica that failed earlier was settled then.
        if slot.outcome is not None:
            continue
        purses.settle(market, task_id, task, place, outcome, due=due_blocks)
        # It took over and has not started, so its pay for standing by is still due.
        if slot.was_standby:
            purses.pay_standby(market, task_id, task, place, slot.provider, slot.price)
    task = ending.release_standby(market, task_id, task)
    ending.free_slots(market, task_id, task)
    ending.end(market, task_id, task, outcome)
