"""What a task paid: the row of the money table that its slot ended by, reckoned from the record that the chain keeps.

Always: a pure function; what a court took, and what both signed for another end, no record of the task holds: neither
is in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpu_tasks.market.training import money
from gpu_tasks.market.training.money import TaskMoney, TaskPayee, TaskPurse
from gpu_tasks.market.training.orders import is_by_time
from gpu_tasks.market.training.tasks import Slot, Task, TaskState, kept_step
from gpu_tasks.market.training.time_paid import end_flows, interval_flows
from gpu_tasks.provider.tasks.places import own_place


def earned(task: Task | None, stash: bytes, device: bytes) -> int:
    """Grains that came to the provider of a slot, after fees; none where the chain does not know it any more."""
    place = None if task is None else own_place(task, stash, device)
    if task is None or place is None:
        return 0
    slot, rules, terms = task.slots[place], task.rules, task.terms
    is_over = task.state is TaskState.ENDED
    outcome = slot.outcome
    if outcome is None and is_over:
        outcome = task.outcome  # what was stopped ended alike for all
    if outcome is None:
        return 0
    until = slot.finished_at or (task.deadline - task.windows.keep if is_over else 0)
    held = {
        TaskPurse.ESCROW: money.escrow(rules, terms.price_max),
        TaskPurse.CUSTOMER_BOND: money.customer_bond(rules, terms.price_max),
        TaskPurse.COLLATERAL: slot.collateral,
    }
    if is_by_time(task.order):
        flows = (*interval_flows(task, slot), *end_flows(task, slot, outcome, held))
    else:
        flows = money.settle(outcome, _at_end(task, slot, held, until))
    return sum(flow.amount for flow in flows if flow.payee is TaskPayee.PROVIDER)


def _at_end(task: Task, slot: Slot, held: Mapping[TaskPurse, int], until: int) -> TaskMoney:
    return TaskMoney(
        rules=task.rules,
        terms=task.terms,
        held=held,
        price=slot.price,
        collateral=slot.collateral,
        promised=slot.promised,
        added=slot.added,
        stated=kept_step(task),
        elapsed=until - task.started_at if task.started_at else 0,
        milestones=task.milestones,
        done=task.owed,
    )
