"""What who sold time had of it: reckoned out of the record, or read off the events of its blocks.

Always: None where neither tells it all; intervals of the record are claimed for whom they can only be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpu_tasks.client.training.happened import TaskEvents
from gpu_tasks.client.training.shifts import WorkShift
from gpu_tasks.market.training import events
from gpu_tasks.market.training.money import TaskFlow, TaskOutcome, TaskPayee, TaskPurse
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.market.training.terms import TaskTerms
from gpu_tasks.market.training.time_paid import end_flows, interval_flows
from runtime.pallets.staking.slashing import part

Purses = Mapping[TaskPurse, int]
LEAVERS = (TaskOutcome.LEFT, TaskOutcome.DIED)
AGREED = (TaskOutcome.CLOSED,)
"""Ends of whose sums the record says nothing."""


def time_flows(
    task: Task, shift: WorkShift, terms: TaskTerms, told: TaskEvents, held: Purses
) -> tuple[TaskFlow, ...] | None:
    """Everything that moved for a shift that sold time; `held` is what was locked when its leg began."""
    outcome = shift.outcome
    assert outcome is not None, "it has ended somehow"
    if shift.slot in task.slots:
        end = _told_end(task, terms, shift) if outcome in AGREED else end_flows(task, shift.slot, outcome, held)
        return None if end is None else (*interval_flows(task, shift.slot), *end)
    if outcome not in LEAVERS:
        return _told_end(task, terms, shift)
    intervals, end = _told_intervals(task, shift, told), _told_end(task, terms, shift)
    if intervals is not None and end is not None:
        return (*intervals, *end)
    return _left(task, shift, terms, held)


def _left(task: Task, shift: WorkShift, terms: TaskTerms, held: Purses) -> tuple[TaskFlow, ...] | None:
    """By the record of who was the first, and has a successor: the intervals behind that were its own."""
    is_followed = bool(task.slots) or task.state is TaskState.ASKING
    if shift.auction != 1 or task.auction != 1 or not is_followed:
        return None
    slot = replace(shift.slot, promised=terms.blocks_max)
    leg = replace(task, terms=terms, milestones=task.order.milestones, owed=task.behind, slots=(slot,))
    return (*interval_flows(leg, slot), *end_flows(leg, slot, TaskOutcome.LEFT, held))


def _told_intervals(task: Task, shift: WorkShift, told: TaskEvents) -> tuple[TaskFlow, ...] | None:
    """What events say of the intervals of a shift that ended; None where they do not reach back to its beginning."""
    settled = [event for _, event in told.of(events.SlotSettled)]
    if shift.event is None:
        return None
    flows: list[TaskFlow] = []
    for event in settled[next(at for at, each in enumerate(settled) if each is shift.event) + 1 :]:
        if event.outcome is not TaskOutcome.INTERVAL_PAID:
            return tuple(flows)
        flows += _earned(task, event.earned)
    return tuple(flows) if told.is_whole else None


def _told_end(task: Task, terms: TaskTerms, shift: WorkShift) -> tuple[TaskFlow, ...] | None:
    """What the event of an end says."""
    event = shift.event
    if event is None:
        return None
    to_customer = event.lost
    if event.outcome in LEAVERS:
        to_customer = min(event.lost, terms.loss)
    elif event.outcome in (TaskOutcome.NOT_STARTED, TaskOutcome.STANDBY_NOT_STARTED):
        to_customer = event.lost // 2
    flows = (
        *_earned(task, event.earned),
        TaskFlow(TaskPurse.COLLATERAL, TaskPayee.CUSTOMER, to_customer),
        TaskFlow(TaskPurse.COLLATERAL, TaskPayee.BURNED, event.lost - to_customer),
    )
    return tuple(flow for flow in flows if flow.amount)


def _earned(task: Task, amount: int) -> tuple[TaskFlow, ...]:
    fee = part(amount, task.rules.settlement_fee)
    flows = (
        TaskFlow(TaskPurse.ESCROW, TaskPayee.PROVIDER, amount - fee), TaskFlow(TaskPurse.ESCROW, TaskPayee.FEE, fee),
    )  # fmt: skip
    return tuple(flow for flow in flows if flow.amount)
