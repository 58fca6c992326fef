"""The payments for bought time so far, computed from the record of a task for readers.

Invariants: these are pure functions of the record. The flows are those of the money table, interval by interval, so
roundings and fees equal the chain's.
"""

from collections.abc import Mapping

from gpu_tasks.market.training import money
from gpu_tasks.market.training.money import TaskFlow, TaskMoney, TaskOutcome, TaskPurse
from gpu_tasks.market.training.tasks import Slot, Task, paid_blocks


def interval_flows(task: Task, slot: Slot) -> tuple[TaskFlow, ...]:
    """Return all payments for the paid intervals of this leg."""
    held = {TaskPurse.ESCROW: money.escrow(task.rules, task.terms.price_max, items=1)}
    payments: list[TaskFlow] = []
    for intervals_done in range(task.owed):
        due_blocks = paid_blocks(task, intervals_done + 1)
        payments += money.settle(
            TaskOutcome.INTERVAL_PAID,
            _slot_money(task, slot, held, intervals_done=intervals_done, due_blocks=due_blocks),
        )
    return tuple(payments)


def end_flows(task: Task, slot: Slot, outcome: TaskOutcome, held: Mapping[TaskPurse, int]) -> tuple[TaskFlow, ...]:
    """Return the payments of a leg that ends with this outcome. `held`: the money locked at its begin."""
    whole_blocks = paid_blocks(task, task.owed + 1)
    # A program that ends is paid by the block, a customer that leaves pays the whole current interval.
    due_blocks = (
        min(slot.finished_at - task.started_at, whole_blocks) if outcome is TaskOutcome.TIME_OVER else whole_blocks
    )
    return money.settle(outcome, _slot_money(task, slot, held, intervals_done=task.owed, due_blocks=due_blocks))


def _slot_money(
    task: Task, slot: Slot, held: Mapping[TaskPurse, int], *, intervals_done: int, due_blocks: int
) -> TaskMoney:
    return TaskMoney(
        rules=task.rules,
        terms=task.terms,
        held=held,
        price=slot.price,
        collateral=slot.collateral,
        promised=slot.promised,
        milestones=task.milestones,
        done=intervals_done,
        due=due_blocks,
    )
