"""What a time limit cut off is submitted again, so often and no more; chains that say so: `test_selling_time`."""

import asyncio
from dataclasses import replace

import pytest

from gpu_tasks.client.commands.task_runs import run_again, was_cut_off
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.tasks import Slot, Task, TaskResult, TaskState
from gpu_tasks.tasks.container_request import CONTAINER_WORKLOAD
from priced_tasks import a_task


def ended(
    *, blocks: int = 15, exit_code: int = 143, is_lease: bool = False, outcome: TaskOutcome = TaskOutcome.TIME_OVER,
    checked_by: CheckedBy = CheckedBy.METERED,
) -> Task:  # fmt: skip
    """A task that had 15 blocks, and took some."""
    slot = Slot(
        bytes(32), bytes(32), 1, promised=15, collateral=1, started_at=100, finished_at=100 + blocks,
        result=TaskResult(bytes(32), bytes(32), exit_code),
    )  # fmt: skip
    task = a_task(state=TaskState.ENDED, outcome=outcome)
    checked = CheckedBy.LEASED if is_lease else checked_by
    order = replace(task.order, workload=CONTAINER_WORKLOAD, checked_by=checked)
    return replace(task, order=order, slots=(slot,), started_at=100)


@pytest.mark.parametrize(
    ("task", "is_cut"),
    [
        (ended(), True),
        (ended(blocks=16, exit_code=137), True),
        (ended(blocks=14), False),
        (ended(exit_code=0), False),
        (ended(is_lease=True, exit_code=0), True),
        (ended(is_lease=True, blocks=14), False),
        (ended(outcome=TaskOutcome.TIME_STOPPED), False),
        (ended(outcome=TaskOutcome.LEFT), False),
        (ended(checked_by=CheckedBy.REPLICATED, outcome=TaskOutcome.ON_TIME), False),
        (ended(checked_by=CheckedBy.EXECUTED), False),
    ],
)
def test_what_was_cut_off(task: Task, is_cut: bool) -> None:
    assert was_cut_off(task) is is_cut


@pytest.mark.parametrize(
    ("ends", "requeues", "runs"),
    [
        ([ended(), ended(), ended(exit_code=0), ended()], 3, 3),
        ([ended()] * 9, 3, 4),
        ([ended()] * 9, 0, 1),
        ([ended(blocks=3), ended()], 5, 1),
    ],
)
def test_it_is_submitted_again_so_often_and_no_more(ends: list[Task], requeues: int, runs: int) -> None:
    said, left = list[str](), list(ends)

    async def run() -> Task:
        return left.pop(0)

    assert asyncio.run(run_again(run, requeues, said.append)) is ends[runs - 1]
    assert len(ends) - len(left) == runs
    assert len(said) == runs - 1
