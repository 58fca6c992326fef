"""What a provider may or must do next for each slot, bid and place as a runner-up that it has: pure functions.

Always: there is exactly one duty for each slot, bid and place; what it says holds as far as nobody's transaction and
no newer final block change the task before.
"""

from enum import IntEnum

from gpu_tasks.market.ids import DeviceId, TaskId
from gpu_tasks.market.training.orders import CheckedBy, is_by_time, is_replicated
from gpu_tasks.market.training.showing import Stretches, TraceStretch, judged_stretches
from gpu_tasks.market.training.tasks import Slot, Task, TaskState, agreed_milestone, interval_end, kept_step, panel
from runtime.encoding.codec import U8, named, struct
from runtime.encoding.types import BlockNumber


@named("ogpu::TaskRole")
class TaskRole(IntEnum):
    """What a provider has of a task."""

    BID = 0
    SLOT = 1
    STANDBY = 2


@named("ogpu::TaskDeed")
class TaskDeed(IntEnum):
    """The call that is next. Who leaves out what it must do loses by the money table; what it may do is its own."""

    WAIT = 0
    """Nothing: others act, or a height is awaited."""
    REVEAL = 1
    """Must: `reveal_bid`; else the bond burns."""
    START = 2
    """Must: `start`, or `report_input` where the input is not to be had."""
    CHECKPOINT = 3
    """Must: `report_milestone` of `number`, or `finish` already; of time `number` intervals are over by then."""
    FINISH = 4
    """Must: `finish`; the milestone that is left, `number`, is the result."""
    SHOW = 5
    """Must: `show` the `stretches`."""
    HOLD_CHECKPOINT = 6
    """May: fetch the checkpoint of milestone `number`, then `confirm_checkpoint`."""
    TAKE_OVER = 7
    """May: `start` with place 0, behind milestone `number`."""
    BIND = 8
    """Must: `finish` with the commitment to the result as its root."""
    OPEN_RESULT = 9
    """Must: `open_result`."""


@struct
class TaskDuty:
    """What is next for a slot, a bid or a place as a runner-up. Heights are 0 where no window is known."""

    task: TaskId
    state: TaskState
    role: TaskRole
    place: U8
    """Of a slot; 0 else."""
    auction: U8
    """In which auction of the task the device was bid, counted from 1."""
    device: DeviceId
    deed: TaskDeed
    opens_at: BlockNumber
    """The first block in which the call counts, the next one at the earliest."""
    until: BlockNumber
    """The last one."""
    number: U8 = 0
    stretches: Stretches = ()


def slot_duty(task_id: bytes, task: Task, place: int, height: int) -> TaskDuty:
    """What is next for who has a slot; `height` is the next block's."""
    slot = task.slots[place]
    deed, number, stretches = _of_slot(task_id, task, place, slot)
    opens_at = max(height, _opens_at(task, deed))
    return _duty(
        task_id, task, TaskRole.SLOT, slot.device, deed, opens_at, place=place, number=number, stretches=stretches
    )


def standby_duty(task_id: bytes, task: Task, height: int) -> TaskDuty:
    """What is next for who stands by."""
    standby = task.standby
    assert standby is not None, "somebody stands by"
    deed, number = _of_standby(task)
    return _duty(task_id, task, TaskRole.STANDBY, standby.device, deed, height, number=number)


def bid_duty(task_id: bytes, task: Task, auction: int, device: bytes, height: int, *, is_opened: bool) -> TaskDuty:
    """What is next for a bid that still holds something, and has no slot."""
    if auction != task.auction or is_opened or task.state not in (TaskState.COMMITTING, TaskState.REVEALING):
        return _duty(task_id, task, TaskRole.BID, device, TaskDeed.WAIT, height, auction=auction)
    if task.state is TaskState.REVEALING:
        return _duty(task_id, task, TaskRole.BID, device, TaskDeed.REVEAL, height)
    opens_at = max(height, task.deadline + 1)
    until = opens_at + task.windows.reveal - 1
    return TaskDuty(
        task_id, task.state, TaskRole.BID, 0, auction, device, TaskDeed.REVEAL, opens_at=opens_at, until=until
    )


def _of_slot(task_id: bytes, task: Task, place: int, slot: Slot) -> tuple[TaskDeed, int, tuple[TraceStretch, ...]]:
    if slot.outcome is not None or place not in panel(task):
        return TaskDeed.WAIT, 0, ()
    if task.state is TaskState.STARTING and not slot.started_at:
        return TaskDeed.START, 0, ()
    if task.state is TaskState.OPENING and slot.commitment is not None and slot.result is None:
        return TaskDeed.OPEN_RESULT, 0, ()
    if task.state is TaskState.RUNNING and slot.result is None and slot.reported == kept_step(task):
        number = slot.reported + 1
        last = TaskDeed.BIND if is_replicated(task.order) else TaskDeed.FINISH
        deed = TaskDeed.CHECKPOINT if number < task.milestones else last
        return deed, task.behind + number, ()
    if task.state is TaskState.SHOWING and task.drawn is not None and not slot.is_shown:
        return TaskDeed.SHOW, 0, judged_stretches(task_id, task, place)
    return TaskDeed.WAIT, 0, ()


def _opens_at(task: Task, deed: TaskDeed) -> int:
    """Where time is bought, the block in which an interval is over, or a lease; 0 where nothing has to pass."""
    if not is_by_time(task.order) or deed not in (TaskDeed.CHECKPOINT, TaskDeed.FINISH):
        return 0
    may_end_early = deed is TaskDeed.FINISH and task.order.checked_by is not CheckedBy.LEASED
    return 0 if may_end_early else interval_end(task)


def _of_standby(task: Task) -> tuple[TaskDeed, int]:
    if task.state is TaskState.ASKING:
        return TaskDeed.TAKE_OVER, task.behind
    agreed = agreed_milestone(task) if task.state is TaskState.RUNNING else None
    if agreed is not None and agreed.number > task.behind + task.done:
        return TaskDeed.HOLD_CHECKPOINT, agreed.number
    return TaskDeed.WAIT, 0


def _duty(
    task_id: bytes,
    task: Task,
    role: TaskRole,
    device: bytes,
    deed: TaskDeed,
    height: int,
    *,
    place: int = 0,
    auction: int = 0,
    number: int = 0,
    stretches: tuple[TraceStretch, ...] = (),
) -> TaskDuty:
    """A duty in the window of the task's state; once that is over there is nothing to do but wait."""
    auction = auction or task.auction
    if deed is TaskDeed.WAIT or task.deadline < height:
        return TaskDuty(task_id, task.state, role, place, auction, device, TaskDeed.WAIT, 0, 0)
    return TaskDuty(task_id, task.state, role, place, auction, device, deed, height, task.deadline, number, stretches)
