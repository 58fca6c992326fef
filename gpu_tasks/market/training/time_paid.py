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
    held = {TaskPurse.ESCROW: money.escrow(task.rules, task.terms.price_max)}
    flows: list[TaskFlow] = []
    for done in range(task.owed):
        due = paid_blocks(task, done + 1)
        flows += money.settle(TaskOutcome.INTERVAL_PAID, _state(task, slot, held, done=done, due=due))
    return tuple(flows)


def end_flows(task: Task, slot: Slot, outcome: TaskOutcome, held: Mapping[TaskPurse, int]) -> tuple[TaskFlow, ...]:
    """Return the payments of a leg that ends with this outcome. `held` is the locked money at the leg's begin."""
    whole = paid_blocks(task, task.owed + 1)
    # A program that ends is paid by the block, a customer that leaves pays the whole current interval.
    due = min(slot.finished_at - task.started_at, whole) if outcome is TaskOutcome.TIME_OVER else whole
    return money.settle(outcome, _state(task, slot, held, done=task.owed, due=due))


def _state(task: Task, slot: Slot, held: Mapping[TaskPurse, int], *, done: int, due: int) -> TaskMoney:
    return TaskMoney(
        rules=task.rules,
        terms=task.terms,
        held=held,
        price=slot.price,
        collateral=slot.collateral,
        promised=slot.promised,
        milestones=task.milestones,
        done=done,
        due=due,
    )
