"""What a task paid: the row of the money table that its slot ended by, reckoned from the record that the chain keeps.

Always: a pure function; what a court took, which no record of the task holds, is not in it.
"""

from __future__ import annotations

from gpu_tasks.market.training import money
from gpu_tasks.market.training.money import TaskMoney, TaskOutcome, TaskPayee, TaskPurse
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.provider.tasks.places import own_place

DISPUTED = (TaskOutcome.DISPUTED_FALSELY,)


def earned(task: Task | None, stash: bytes, device: bytes) -> int:
    """Grains that came to the provider of a slot, after fees; none where the chain does not know it any more."""
    place = None if task is None else own_place(task, stash, device)
    if task is None or place is None or task.slots[place].outcome is None:
        return 0
    slot, rules, terms = task.slots[place], task.rules, task.terms
    outcome = slot.outcome
    assert outcome is not None
    held = {
        TaskPurse.ESCROW: money.escrow(rules, terms.price_max),
        TaskPurse.CUSTOMER_BOND: money.customer_bond(rules, terms.price_max),
        TaskPurse.COLLATERAL: slot.collateral,
    }
    state = TaskMoney(
        rules=rules,
        terms=terms,
        held=held,
        price=slot.price,
        collateral=slot.collateral,
        promised=slot.promised,
        elapsed=slot.finished_at - task.started_at if slot.finished_at else 0,
        milestones=task.milestones,
        done=task.owed,
    )
    flows = money.settle(outcome, state)
    return sum(flow.amount for flow in flows if flow.payee is TaskPayee.PROVIDER)
