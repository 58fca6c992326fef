"""A program that its time limit cut off, submitted again by its customer's command.

Always: what is submitted again is the same file as a new task, which begins anew; what ended otherwise is not; no more
often than its customer agreed to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gpu_tasks.client.training.records import exit_code_of
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy, is_by_time
from gpu_tasks.market.training.tasks import Task

REQUEUES_MAX = 32
CUT_OFF = "its time was over before its program had ended"


def was_cut_off(task: Task) -> bool:
    """Whether all of the time that was bought is over, and a job's program did not end well by itself.

    Who exits with 0 when it is told to end says that it is done; a lease has no end but that of its time.
    """
    if not is_by_time(task.order) or task.outcome is not TaskOutcome.TIME_OVER:
        return False
    slot = task.slots[0]
    is_all_taken = slot.finished_at - task.started_at >= slot.promised
    return is_all_taken and (task.order.checked_by is CheckedBy.LEASED or exit_code_of(task) != 0)


async def run_again(run: Callable[[], Awaitable[Task]], requeues: int, say: Callable[[str], None]) -> Task:
    """Run a task to its end, and again as often as it was cut off, at most `requeues` times; how the last one ended."""
    for left in reversed(range(requeues)):
        ended = await run()
        if not was_cut_off(ended):
            return ended
        say(f"{CUT_OFF}: it is submitted again, and {left} times more at most")
    return await run()
