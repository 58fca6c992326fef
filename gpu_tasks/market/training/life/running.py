"""The work: starts, milestones, results.

Always: the promised blocks count from when all have started; who is silent for twice a milestone's share of them, and
some grace, is gone; all providers of a gang keep step; a milestone counts only when somebody beside them holds its
checkpoint.
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
    TaskRunning,
    WrongMilestone,
)
from gpu_tasks.market.training.life import bidding, ending, judging, metering, replicating
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
    interval_end,
    kept_step,
    panel,
    slot_of,
    taken_by,
    with_slot,
)
from runtime.frame.pallet import ensure, known

SILENT_TIMES = 2
"""Who has not stated a milestone after so many times its share of the promised blocks, and the grace, is gone."""


def start(market: TrainingStorage, task_id: bytes, place: int, account: bytes) -> None:
    """Say that the work on a slot begins; when all have, the promised blocks count."""
    task = market.open_task(task_id)
    market.ensure_in(task, TaskState.STARTING, TaskState.ASKING)
    if task.state is TaskState.ASKING:
        task = _take_over(market, task_id, task, place, account)
    _, slot = _of(market, task, place, account)
    ensure(not slot.started_at and slot.outcome is None, DoneAlready)
    if slot.was_standby:
        purses.pay_standby(market, task_id, task, place, slot.provider, slot.price)
    task = with_slot(task, place, replace(slot, started_at=market.height, was_standby=False))
    market.emit(SlotStarted(task_id, place, slot.provider))
    if is_replicated(task.order):
        if all(task.slots[each].started_at for each in panel(task)):
            replicating.run(market, task_id, task)
        else:
            market.put(task_id, task)
        return
    if all(each.started_at for each in task.slots):
        task = replace(task, state=TaskState.RUNNING, started_at=market.height, reported_at=market.height)
        task = replace(task, deadline=silent_until(task))
        market.emit(TaskRunning(task_id))
    market.put(task_id, task)


def report_milestone(market: TrainingStorage, task_id: bytes, place: int, account: bytes, milestone: Milestone) -> None:
    """State the next milestone of a slot; the last one is the result."""
    task, slot = market.worked(task_id, place, account)
    ensure_may_report(market, task, slot, milestone)
    report(market, task_id, task, place, milestone)


def ensure_may_report(market: TrainingStorage, task: Task, slot: Slot, milestone: Milestone) -> None:
    """That a slot of this task may state this milestone now, whoever says so for it."""
    market.ensure_in(task, TaskState.RUNNING)
    _ensure_next(task, slot)
    number = slot.reported + 1
    ensure(number < task.milestones and milestone.number == task.behind + number, WrongMilestone)
    if is_by_time(task.order):
        metering.ensure_interval_over(task, market.height)


def report(market: TrainingStorage, task_id: bytes, task: Task, place: int, milestone: Milestone) -> None:
    """Write down a milestone that may be stated."""
    market.emit(MilestoneReported(task_id, place, milestone))
    if is_by_time(task.order):
        metering.pay_interval(market, task_id, task, milestone)
        return
    slot = task.slots[place]
    taken = taken_by(task, slot, market.height)
    slot = replace(slot, reported=milestone.number - task.behind, milestone=milestone, taken=taken)
    market.put(task_id, _in_step(market, task, with_slot(task, place, slot)))


def confirm_checkpoint(market: TrainingStorage, task_id: bytes, account: bytes, number: int, root: bytes) -> None:
    """Sign as the customer or the runner-up that one holds the checkpoint of a milestone: it counts from here."""
    task = market.open_task(task_id)
    market.ensure_in(task, TaskState.RUNNING)
    standby = task.standby
    is_standby = standby is not None and standby.provider == market.devices.operator(account)
    is_customer = account == task.customer
    ensure(is_customer or is_standby, MayNotConfirm)
    ensure(number > task.behind + (task.owed if is_customer else task.done), NothingToConfirm)
    newest = known(agreed_milestone(task), NothingToConfirm)
    ensure((number, root) == (newest.number, newest.root), NothingToConfirm)
    task = replace(task, done=number - task.behind, checkpoint=HeldCheckpoint(newest, account))
    # A winner may have a second name that stands by: what that signs for is a place to go on from, and nobody's money.
    if is_customer:
        task = replace(task, owed=task.done)
    market.put(task_id, ending.release_standby(market, task_id, task))
    market.emit(MilestoneCounted(task_id, number, account))


def finish(market: TrainingStorage, task_id: bytes, place: int, account: bytes, result: TaskResult) -> None:
    """State the result of a slot; when all have, the customer has the word, and the beacon may ask for an audit."""
    task, slot = market.worked(task_id, place, account)
    ensure_may_finish(market, task, slot)
    take_result(market, task_id, task, place, result)


def ensure_may_finish(market: TrainingStorage, task: Task, slot: Slot) -> None:
    """That a slot of this task may state its result now, or what it is bound to, whoever says so for it."""
    market.ensure_in(task, TaskState.RUNNING)
    _ensure_next(task, slot)
    if is_by_time(task.order):
        metering.ensure_may_end(task, market.height)


def take_result(market: TrainingStorage, task_id: bytes, task: Task, place: int, result: TaskResult) -> None:
    """Write down a result that may be stated; of a replica its root is a commitment, and nothing else of it counts."""
    if is_replicated(task.order):
        replicating.bind(market, task_id, task, place, result.root)
        return
    market.emit(ResultStated(task_id, place, result))
    if is_by_time(task.order):
        metering.end_time(market, task_id, task, result)
        return
    slot = task.slots[place]
    taken = taken_by(task, slot, market.height)
    slot = replace(slot, reported=task.milestones, finished_at=market.height, result=result, taken=taken)
    after = with_slot(task, place, slot)
    if any(each.result is None for each in after.slots):
        market.put(task_id, _in_step(market, task, after))
    else:
        judging.take_results(market, task_id, ending.release_standby(market, task_id, after))


def silent_until(task: Task) -> int:
    """The last block in which the next milestone, or interval, may be stated."""
    if is_by_time(task.order):
        return interval_end(task) + task.windows.grace
    share = max(-(-slot.promised // task.milestones) for slot in task.slots)
    return task.reported_at + SILENT_TIMES * share + task.windows.grace


def _of(market: TrainingStorage, task: Task, place: int, account: bytes) -> tuple[Task, Slot]:
    ensure(place < len(task.slots), NotSlotOwner)
    slot = task.slots[place]
    ensure(slot.provider == market.devices.operator(account), NotSlotOwner)
    return task, slot


def _ensure_next(task: Task, slot: Slot) -> None:
    """DoneAlready for who is ahead of its partners, or done."""
    is_free = slot.result is None and slot.outcome is None
    ensure(is_free and slot.reported == kept_step(task), DoneAlready)


def _in_step(market: TrainingStorage, before: Task, task: Task) -> Task:
    """The task, with time for the next milestone where all have stated one more than before."""
    if kept_step(task) == kept_step(before):
        return task
    task = replace(task, reported_at=market.height)
    return replace(task, deadline=silent_until(task))


def _take_over(market: TrainingStorage, task_id: bytes, task: Task, place: int, account: bytes) -> Task:
    """The runner-up, bound no more, takes the rest of a task of one slot: its collateral is locked again.

    With a device that might bid for it: who is bound no more may have registered the same one anew as another class.
    """
    standby = known(task.standby, NotSlotOwner)
    ensure(place == 0 and standby.provider == market.devices.operator(account), NotSlotOwner)
    device = known(market.devices.devices[standby.device], NotEligible)
    ensure(bidding.is_eligible(market, task, standby.device, device), NotEligible)
    market.lock.lock(standby.provider, purses.collateral_hold(task_id, task, standby.device), standby.collateral)
    market.devices.assign(standby.device, task_id)
    return replace(task, state=TaskState.STARTING, slots=(slot_of(standby),), standby=None)
