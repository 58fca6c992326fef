"""The next duty or option of a provider for each of its slots, bids and standbys, as pure functions.

Invariants: each slot, bid and standby has exactly one duty. It holds unless a transaction or a newer final block
changes the task first.
"""

from dataclasses import replace
from enum import IntEnum

from gpu_tasks.market.ids import DeviceId, TaskId
from gpu_tasks.market.training.orders import CheckedBy, is_by_time, is_replicated
from gpu_tasks.market.training.tasks import Slot, Task, TaskState, agreed_milestone, interval_end, kept_step
from runtime.encoding.codec import U8, named, struct
from runtime.encoding.types import BlockNumber


@named("ogpu::TaskRole")
class TaskRole(IntEnum):
    """The role of a provider in a task."""

    BID = 0
    SLOT = 1
    STANDBY = 2


@named("ogpu::TaskDeed")
class TaskDeed(IntEnum):
    """The next call. A provider that omits a duty loses by the money table. An option is its own choice."""

    WAIT = 0
    """No call: the task waits for other parties or for a height."""
    REVEAL = 1
    """Duty: `reveal_bid`, or the bond burns."""
    START = 2
    """Duty: `start`, or `report_input` if the input is missing."""
    CHECKPOINT = 3
    """Duty: `report_milestone` of `number`, or `finish` early. For bought time, `number` intervals are over then."""
    FINISH = 4
    """Duty: `finish`. The remaining milestone, `number`, is the result."""
    HOLD_CHECKPOINT = 5
    """Option: fetch the checkpoint of milestone `number`, then call `confirm_checkpoint`."""
    TAKE_OVER = 6
    """Option: `start` with place 0, behind milestone `number`."""
    BIND = 7
    """Duty: `finish` with the commitment to the result as its root."""
    OPEN_RESULT = 8
    """Duty: `open_result`."""


@struct
class TaskDuty:
    """The next call for a slot, a bid or a standby. Heights are 0 if no window is known."""

    task: TaskId
    state: TaskState
    role: TaskRole
    place: U8
    """The place of a slot, else 0."""
    auction: U8
    """The auction of the task in which the device was bid, counted from 1."""
    device: DeviceId
    deed: TaskDeed
    opens_at: BlockNumber
    """The first block in which the call counts: the next one, or later."""
    until: BlockNumber
    """The last block in which the call counts."""
    number: U8 = 0


def slot_duty(task_id: bytes, task: Task, place: int, next_height: int) -> TaskDuty:
    """Return the next call of a slot's provider. `next_height` is the next block's."""
    slot = task.slots[place]
    deed, number = _slot_deed(task, slot)
    opens_at = max(next_height, _opens_at(task, deed))
    duty = _waiting(task_id, task, TaskRole.SLOT, slot.device, place=place)
    return _in_window(duty, deed, opens_at, task.deadline, number)


def standby_duty(task_id: bytes, task: Task, next_height: int) -> TaskDuty:
    """Return the next call of the standby."""
    standby = task.standby
    assert standby is not None, "a standby's duty has a standby"
    deed, number = _standby_deed(task)
    duty = _waiting(task_id, task, TaskRole.STANDBY, standby.device)
    return _in_window(duty, deed, next_height, task.deadline, number)


def bid_duty(
    task_id: bytes, task: Task, auction_number: int, device_id: bytes, next_height: int, *, is_opened: bool
) -> TaskDuty:
    """Return the next call for a bid that still holds money or device and has no slot."""
    duty = replace(_waiting(task_id, task, TaskRole.BID, device_id), auction=auction_number)
    if auction_number != task.auction or is_opened or task.state not in (TaskState.COMMITTING, TaskState.REVEALING):
        return duty
    if task.state is TaskState.REVEALING:
        return _in_window(duty, TaskDeed.REVEAL, next_height, task.deadline)
    # The windows are frozen in the task, so the reveal window is known before it begins.
    opens_at = max(next_height, task.deadline + 1)
    return _in_window(duty, TaskDeed.REVEAL, opens_at, opens_at + task.windows.reveal - 1)


def _slot_deed(task: Task, slot: Slot) -> tuple[TaskDeed, int]:
    if slot.outcome is not None:
        return TaskDeed.WAIT, 0
    if task.state is TaskState.STARTING and not slot.started_at:
        return TaskDeed.START, 0
    if task.state is TaskState.OPENING and slot.commitment is not None and slot.result is None:
        return TaskDeed.OPEN_RESULT, 0
    # A gang keeps step: a provider that is ahead waits for its partners.
    if task.state is TaskState.RUNNING and slot.result is None and slot.reported == kept_step(task):
        next_milestone = slot.reported + 1
        final_deed = TaskDeed.BIND if is_replicated(task.order) else TaskDeed.FINISH
        deed = TaskDeed.CHECKPOINT if next_milestone < task.milestones else final_deed
        return deed, task.behind + next_milestone
    return TaskDeed.WAIT, 0


def _opens_at(task: Task, deed: TaskDeed) -> int:
    """Return the block after the current interval or lease, for duties of bought time that must wait, else 0."""
    if not is_by_time(task.order) or deed not in (TaskDeed.CHECKPOINT, TaskDeed.FINISH):
        return 0
    may_end_early = deed is TaskDeed.FINISH and task.order.checked_by is not CheckedBy.LEASED
    return 0 if may_end_early else interval_end(task)


def _standby_deed(task: Task) -> tuple[TaskDeed, int]:
    if task.state is TaskState.ASKING:
        return TaskDeed.TAKE_OVER, task.behind
    agreed_checkpoint = agreed_milestone(task) if task.state is TaskState.RUNNING else None
    if agreed_checkpoint is not None and agreed_checkpoint.number > task.behind + task.done:
        return TaskDeed.HOLD_CHECKPOINT, agreed_checkpoint.number
    return TaskDeed.WAIT, 0


def _waiting(task_id: bytes, task: Task, role: TaskRole, device_id: bytes, *, place: int = 0) -> TaskDuty:
    """Return the duty to wait, in the task's newest auction."""
    return TaskDuty(task_id, task.state, role, place, task.auction, device_id, TaskDeed.WAIT, 0, 0)


def _in_window(duty: TaskDuty, deed: TaskDeed, opens_at: int, until: int, number: int = 0) -> TaskDuty:
    """Return a duty in a window. After the window the only duty is to wait."""
    # A step can wait for room in a later block, and the task then shows a state without an open window.
    if deed is TaskDeed.WAIT or until < opens_at:
        return duty
    return replace(duty, deed=deed, opens_at=opens_at, until=until, number=number)
