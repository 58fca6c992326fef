"""The work: starts, milestones, results.

Invariants: the promised blocks count from the block in which all have started. A provider that is silent for twice a
milestone's share of them, plus the grace, has died. All providers of a gang keep step. A milestone counts only when
another party holds its checkpoint.
"""

from dataclasses import replace

from gpu_tasks.market.training import purses
from gpu_tasks.market.training.events import (
    DoneAlready,
    MayNotConfirm,
    MilestoneCounted,
    MilestoneReported,
    NotEligible,
    NothingToConfirm,
    NotSlotOwner,
    ResultStated,
    SlotStarted,
    WrongMilestone,
)
from gpu_tasks.market.training.life import bidding, ending, metering, replicating, sides
from gpu_tasks.market.training.orders import is_by_time, is_replicated
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import (
    HeldCheckpoint,
    Milestone,
    Slot,
    Task,
    TaskResult,
    TaskState,
    agreed_milestone,
    kept_step,
    silent_until,
    slot_of,
    taken_by,
    with_slot,
)
from runtime.frame.pallet import ensure, known


def start(market: TrainingStorage, task_id: bytes, place: int, account: bytes) -> None:
    """Start the work on a slot. When all have started, the promised blocks count."""
    task = market.open_task(task_id)
    market.ensure_in(task, TaskState.STARTING, TaskState.ASKING)
    if task.state is TaskState.ASKING:
        task = _take_over(market, task_id, task, place, account)
    _, slot = _running_slot(market, task, place, account)
    ensure(not slot.started_at and slot.outcome is None, DoneAlready)
    if slot.was_standby:
        purses.pay_standby(market, task_id, task, place, slot.provider, slot.price)
    task = with_slot(task, place, replace(slot, started_at=market.height, was_standby=False))
    market.emit(SlotStarted(task_id, place, slot.provider))
    if all(other.started_at for other in task.slots):
        market.begin_work(task_id, task)
    else:
        market.put(task_id, task)


def report_milestone(market: TrainingStorage, task_id: bytes, place: int, account: bytes, milestone: Milestone) -> None:
    """State the next milestone of a slot. The last one is the result."""
    task, slot = market.worked(task_id, place, account)
    ensure_may_report(market, task, slot, milestone)
    report(market, task_id, task, place, milestone)


def ensure_may_report(market: TrainingStorage, task: Task, slot: Slot, milestone: Milestone) -> None:
    """Raise an error unless a slot of this task may state this milestone now, by attestation or call."""
    market.ensure_in(task, TaskState.RUNNING)
    _ensure_next(task, slot)
    milestone_number = slot.reported + 1
    ensure(milestone_number < task.milestones and milestone.number == task.behind + milestone_number, WrongMilestone)
    if is_by_time(task.order):
        metering.ensure_interval_over(task, market.height)


def report(market: TrainingStorage, task_id: bytes, task: Task, place: int, milestone: Milestone) -> None:
    """Record a milestone that may be stated."""
    market.emit(MilestoneReported(task_id, place, milestone))
    if is_by_time(task.order):
        metering.pay_interval(market, task_id, task, milestone)
        return
    slot = task.slots[place]
    blocks_taken = taken_by(task, slot, market.height)
    slot = replace(slot, reported=milestone.number - task.behind, milestone=milestone, taken=blocks_taken)
    market.put(task_id, _is_in_step(market, task, with_slot(task, place, slot)))


def confirm_checkpoint(
    market: TrainingStorage, task_id: bytes, account: bytes, milestone_number: int, state_root: bytes
) -> None:
    """Confirm, as the customer or the runner-up, that the signer holds a milestone's checkpoint. It then counts."""
    task = market.open_task(task_id)
    market.ensure_in(task, TaskState.RUNNING)
    standby = task.standby
    is_standby = standby is not None and standby.provider == market.devices.operator(account)
    is_customer = account == task.customer
    # A winner could otherwise count its own milestones, and vanish with their blobs.
    ensure(is_customer or is_standby, MayNotConfirm)
    # The customer may confirm a milestone that already counts by the runner-up: only then is it owed.
    ensure(milestone_number > task.behind + (task.owed if is_customer else task.done), NothingToConfirm)
    newest_milestone = known(agreed_milestone(task), NothingToConfirm)
    ensure((milestone_number, state_root) == (newest_milestone.number, newest_milestone.root), NothingToConfirm)
    task = replace(task, done=milestone_number - task.behind, checkpoint=HeldCheckpoint(newest_milestone, account))
    # A winner may own the runner-up too. So its confirmation gives a place to continue from, and no claim on money.
    if is_customer:
        task = replace(task, owed=task.done)
    market.put(task_id, ending.release_standby(market, task_id, task))
    market.emit(MilestoneCounted(task_id, milestone_number, account))


def finish(market: TrainingStorage, task_id: bytes, place: int, account: bytes, result: TaskResult) -> None:
    """State the result of a slot. When all have, the results become claims."""
    task, slot = market.worked(task_id, place, account)
    ensure_may_finish(market, task, slot)
    take_result(market, task_id, task, place, result)


def ensure_may_finish(market: TrainingStorage, task: Task, slot: Slot) -> None:
    """Raise an error unless a slot of this task may state its result or its commitment now, by attestation or call."""
    market.ensure_in(task, TaskState.RUNNING)
    _ensure_next(task, slot)
    if is_by_time(task.order):
        metering.ensure_may_end(task, market.height)


def take_result(market: TrainingStorage, task_id: bytes, task: Task, place: int, result: TaskResult) -> None:
    """Record a result that may be stated. A replica's root is its commitment, and nothing else of it counts."""
    if is_replicated(task.order):
        replicating.bind(market, task_id, task, place, result.root)
        return
    market.emit(ResultStated(task_id, place, result))
    if is_by_time(task.order):
        metering.end_time(market, task_id, task, result)
        return
    slot = task.slots[place]
    blocks_taken = taken_by(task, slot, market.height)
    slot = replace(slot, reported=task.milestones, finished_at=market.height, result=result, taken=blocks_taken)
    task_after = with_slot(task, place, slot)
    if any(other.result is None for other in task_after.slots):
        market.put(task_id, _is_in_step(market, task, task_after))
    else:
        sides.take_results(market, task_id, ending.release_standby(market, task_id, task_after))


def _running_slot(market: TrainingStorage, task: Task, place: int, account: bytes) -> tuple[Task, Slot]:
    ensure(place < len(task.slots), NotSlotOwner)
    slot = task.slots[place]
    ensure(slot.provider == market.devices.operator(account), NotSlotOwner)
    return task, slot


def _ensure_next(task: Task, slot: Slot) -> None:
    """Raise DoneAlready if the provider is ahead of its partners, or done."""
    is_result_due = slot.result is None and slot.outcome is None
    ensure(is_result_due and slot.reported == kept_step(task), DoneAlready)


def _is_in_step(market: TrainingStorage, task_before: Task, task: Task) -> Task:
    """Return the task, with a new deadline if all have stated one more milestone."""
    if kept_step(task) == kept_step(task_before):
        return task
    task = replace(task, reported_at=market.height)
    return replace(task, deadline=silent_until(task))


def _take_over(market: TrainingStorage, task_id: bytes, task: Task, place: int, account: bytes) -> Task:
    """Give the rest of a task of one slot to the released runner-up, and lock its collateral again.

    Its device must be eligible to bid: the owner may have registered it again under another class.
    """
    standby = known(task.standby, NotSlotOwner)
    ensure(place == 0 and standby.provider == market.devices.operator(account), NotSlotOwner)
    record = known(market.devices.devices[standby.device], NotEligible)
    ensure(bidding.is_eligible(market, task, standby.device, record), NotEligible)
    market.lock.lock(standby.provider, purses.collateral_hold(task_id, task, standby.device), standby.collateral)
    market.devices.assign(standby.device, task_id)
    return replace(task, state=TaskState.STARTING, slots=(slot_of(standby),), standby=None)
