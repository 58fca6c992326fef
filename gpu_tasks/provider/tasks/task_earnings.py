"""What a task paid: the row of the money table that its slot ended by, reckoned from the record that the chain keeps.

Always: a pure function; what a court took, and what both signed for another end, no record of the task holds: neither
is in it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from gpu_tasks.market.training import money
from gpu_tasks.market.training.money import TaskMoney, TaskOutcome, TaskPayee, TaskPurse
from gpu_tasks.market.training.orders import is_by_time
from gpu_tasks.market.training.tasks import Slot, Task, TaskState, kept_step, paid_blocks
from gpu_tasks.provider.tasks.places import own_place
from runtime.pallets.staking.slashing import part


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
    state = TaskMoney(
        rules=rules,
        terms=terms,
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
    if is_by_time(task.order):
        return _intervals_paid(task, slot) + _of_provider(outcome, replace(state, due=_due(task, slot, outcome)))
    return _of_provider(outcome, state)


def _of_provider(outcome: TaskOutcome, state: TaskMoney) -> int:
    return sum(flow.amount for flow in money.settle(outcome, state) if flow.payee is TaskPayee.PROVIDER)


def _due(task: Task, slot: Slot, outcome: TaskOutcome) -> int:
    """Blocks of bought time that are paid by the end."""
    whole = paid_blocks(task, task.owed + 1)
    return min(slot.finished_at - task.started_at, whole) if outcome is TaskOutcome.TIME_OVER else whole


def _intervals_paid(task: Task, slot: Slot) -> int:
    """What came for the intervals before the last, each less its fee."""
    ends = [slot.price * number // task.milestones for number in range(task.owed + 1)]
    shares = (end - begin for begin, end in pairwise(ends))
    return sum(share - part(share, task.rules.settlement_fee) for share in shares)
