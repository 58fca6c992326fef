"""A task for a provider with a bid, and the next step, as a function of chain and journal.

Invariant: statements about a task follow the journal. A started task is never reported as missing its input, and a
reported one is never started.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpu_tasks.market.training.bids import TaskBid, auction_id, bid_commitment
from gpu_tasks.market.training.orders import CheckedBy, is_by_time, is_replicated
from gpu_tasks.market.training.tasks import (
    Milestone,
    Slot,
    Standby,
    Task,
    TaskState,
    agreed_milestone,
    interval_end,
    kept_step,
)
from gpu_tasks.provider.journal.task_records import TaskEntry, TaskKey, TaskStep
from gpu_tasks.provider.tasks.replica_places import (
    is_of_leg,
    is_offer,
    is_to_be_bound,
    is_to_be_opened,
    may_offer,
    why_offer_over,
    why_replica_waits,
    works_now,
)

REPLICA_STATES = (TaskState.VOLUNTEERING, TaskState.OPENING)
REPORT_BLOCKS = 4
"""This many blocks before its start is due, a winner reports an unavailable input."""
HOLD_BLOCKS = 4
"""The delay in blocks before the next milestone, unless the last one is signed. Standbys hold only the newest."""
LAST_BLOCKS = 4
"""This many blocks before the end of the opening window, a bid is opened even without finality."""


@dataclass(frozen=True, slots=True)
class OwnTask:
    """A task with a bid in the journal, in the state of one block."""

    key: TaskKey
    task: Task | None
    """None if the chain no longer knows the task, or not yet."""
    bid: TaskBid | None
    """This provider's bid in that auction."""


@dataclass(frozen=True, slots=True)
class OnHand:
    """The data of a task on this machine."""

    has_input: bool = False
    """True if the input and the first state of the leg are here."""
    held: int = 0
    """The newest milestone of another provider with its checkpoint here."""
    is_lost: bool = False
    """True if the program of a task that buys time is gone or cannot run."""
    may_report: bool = True
    """True if the input is missing, and not a part of this machine's own."""


@dataclass(frozen=True, slots=True)
class _Look:
    """All facts that decide the next step."""

    task: Task
    bid: TaskBid | None
    entry: TaskEntry
    place: int | None
    is_standby: bool
    on_hand: OnHand
    newest: int


def next_step(own: OwnTask, entry: TaskEntry, stash: bytes, on_hand: OnHand, newest: int) -> TaskStep | None:
    """Return the next step, for the block after `newest`, by chain and journal; None if there is none."""
    task, number = own.task, own.key[1]
    if task is None or not is_of_leg(task, number) or entry.end is not None:
        return None
    step = _STEPS.get(task.state)
    # The next block is past the deadline, so any message would fail and cost its fee.
    if step is None or 0 < task.deadline <= newest:
        return None
    place = own_place(task, stash, entry.device)
    is_standby = own_standby(task, stash, entry.device) is not None
    if is_offer(number) and place is None:
        is_missing = own.bid is None and may_offer(task, number, is_again=TaskStep.VOLUNTEER in entry.sent)
        return TaskStep.VOLUNTEER if is_missing else None
    return step(_Look(task, own.bid, entry, place, is_standby, on_hand, newest))


def own_place(task: Task, stash: bytes, device: bytes) -> int | None:
    """Return the slot of this provider with a device."""
    places = (place for place, slot in enumerate(task.slots) if (slot.provider, slot.device) == (stash, device))
    return next(places, None)


def own_standby(task: Task, stash: bytes, device: bytes) -> Standby | None:
    """Return the standby if it is this provider with that device."""
    standby = task.standby
    return standby if standby is not None and (standby.provider, standby.device) == (stash, device) else None


def is_about(task: Task, entry: TaskEntry) -> bool:
    """Return True if the journal's bid was for the chain's present task. Nothing is signed for another one."""
    order, basis = task.order, entry.basis
    return (order.task_hash, order.input_root, order.input_blob) == (
        basis.task_hash, basis.input_root, basis.input_blob,
    )  # fmt: skip


def newest_stated(task: Task) -> int:
    """Return the newest milestone that all winners stated alike and no standby has signed; 0 if there is none."""
    agreed = agreed_milestone(task)
    return agreed.number if agreed is not None and agreed.number > task.behind + task.done else 0


def is_held(task: Task, held: Milestone | None) -> bool:
    """Return True if a fetched checkpoint has the number and root of the milestone that all winners stated."""
    stated = agreed_milestone(task)
    return held is not None and stated is not None and (held.number, held.root) == (stated.number, stated.root)


def why_over(own: OwnTask, entry: TaskEntry, stash: bytes, height: int) -> str:
    """Return the reason that no work of a bid is left, by a final block; empty while some may be."""
    task, device = own.task, entry.device
    if task is None:
        return "the chain has dropped the task"
    if task.state is TaskState.ENDED:
        return "the task has ended"
    if is_offer(own.key[1]):
        place = own_place(task, stash, device)
        return why_offer_over(task, own.key[1], place, height, is_there=own.bid is not None)
    if task.auction != own.key[1]:
        return "it was auctioned again"
    if task.state in (TaskState.COMMITTING, TaskState.REVEALING):
        is_closed = task.state is TaskState.REVEALING or height > task.deadline
        return "the bid was too late" if own.bid is None and is_closed else ""
    if task.state is TaskState.AWARDING:
        return "" if own.bid is not None and own.bid.opened is not None else "the bid was not revealed in time"
    if own_place(task, stash, device) is None and own_standby(task, stash, device) is None:
        return "other bids won"
    return ""


def why_waiting(own: OwnTask, entry: TaskEntry, stash: bytes) -> str:
    """Return a sentence about the event that a task without a due step waits for. It changes only with the event."""
    task = own.task
    assert task is not None, "an unknown task waits for nothing"
    place = own_place(task, stash, entry.device)
    is_of_replicas = task.state in REPLICA_STATES or (is_replicated(task.order) and task.state is TaskState.RUNNING)
    return why_replica_waits(task, place) if is_of_replicas else _why_task_waits(task, place)


def _why_task_waits(task: Task, place: int | None) -> str:
    until = f"until block {task.deadline}"
    match task.state:
        case TaskState.COMMITTING:
            return f"the bid is committed; others may bid {until}"
        case TaskState.REVEALING:
            return f"the bid is revealed; others may reveal theirs {until}"
        case TaskState.AWARDING:
            return f"awarded by the beacon of block {task.beacon_at} once that block is final"
        case TaskState.STARTING:
            return f"waits for its input or for a partner's start, {until}"
        case TaskState.RUNNING:
            if place is None:
                return f"another provider works on it; this one is standby, {until} for the next milestone"
            number, of = task.behind + task.slots[place].reported + 1, task.order.milestones
            computed = f"milestone {number} of {of} is being computed, here or by a partner, {until}"
            sold = f"its program runs; interval {number} of {of} is paid at its end"
            return sold if is_by_time(task.order) else computed
        case TaskState.ASKING:
            return f"the takeover of its rest is being prepared, {until}"
        case TaskState.SUBMITTED:
            accepted = "its result is accepted; the beacon decides on an audit"
            asked = f"its customer may accept or dispute {until}; the beacon decides on an audit"
            return asked if task.deadline else accepted
        case TaskState.SHOWING:
            drawn = "its beacon draws the segments to show"
            return f"{drawn}, or partners show theirs, {until}" if task.deadline else drawn
        case _:
            return "judges check it"


def commitment_of(genesis: bytes, key: TaskKey, stash: bytes, entry: TaskEntry) -> bytes:
    """Return this provider's commitment, by the journal."""
    return bid_commitment(genesis, auction_id(*key), stash, entry.device, entry.offer, entry.salt)


def _committing(look: _Look) -> TaskStep | None:
    return TaskStep.COMMIT if look.bid is None else None


def _revealing(look: _Look) -> TaskStep | None:
    is_sealed = look.bid is not None and look.bid.opened is None
    return TaskStep.REVEAL if is_sealed else None


def _starting(look: _Look) -> TaskStep | None:
    task, sent = look.task, look.entry.sent
    if look.place is None or task.slots[look.place].started_at or not works_now(task, look.place):
        return None
    # After a report the task must not start, even if the input arrives later: the two contradict each other.
    if TaskStep.REPORT in sent:
        return TaskStep.REPORT
    if look.on_hand.has_input or TaskStep.START in sent:
        return TaskStep.START
    is_late = look.on_hand.may_report and not task.jury_from and task.deadline <= look.newest + REPORT_BLOCKS
    return TaskStep.REPORT if is_late else None


def _running(look: _Look) -> TaskStep | None:
    if is_replicated(look.task.order):
        return TaskStep.FINISH if is_to_be_bound(look.task, look.place, look.entry) else None
    if is_by_time(look.task.order):
        return None if look.place is None else _selling(look, look.task.slots[look.place])
    if look.place is not None:
        return _stating(look, look.task.slots[look.place])
    is_held = 0 < newest_stated(look.task) == look.on_hand.held
    return TaskStep.HOLD if look.is_standby and is_held else None


def _stating(look: _Look, slot: Slot) -> TaskStep | None:
    """Return the milestone or result that is computed and due: partners keep step, the previous one had its time."""
    task, entry = look.task, look.entry
    if slot.result is not None or slot.reported != kept_step(task):
        return None
    # Standbys hold the newest checkpoint only, so each needs time before the next one replaces it.
    if task.done < slot.reported and look.newest < task.reported_at + HOLD_BLOCKS:
        return None
    following = slot.reported + 1
    if following == task.milestones:
        return TaskStep.FINISH if entry.result is not None else None
    return TaskStep.MILESTONE if task.behind + following in entry.milestones else None


def _selling(look: _Look, slot: Slot) -> TaskStep | None:
    """Return the step for an ended interval or the end. A lease ends only when its time is up."""
    task, entry, following = look.task, look.entry, look.newest + 1
    if entry.result is not None:
        is_up = following >= task.started_at + slot.promised
        return TaskStep.FINISH if is_up or task.order.checked_by is CheckedBy.METERED else None
    if TaskStep.LEAVE in entry.sent:
        return TaskStep.LEAVE
    is_over = following >= interval_end(task) and slot.reported + 1 < task.milestones
    if is_over and task.behind + slot.reported + 1 in entry.milestones:
        return TaskStep.MILESTONE  # the customer pays for the delivered interval, even if the program was lost later
    return TaskStep.LEAVE if look.on_hand.is_lost else None


def _asked(look: _Look) -> TaskStep | None:
    return TaskStep.START if look.is_standby and look.on_hand.has_input else None


def _opening(look: _Look) -> TaskStep | None:
    return TaskStep.OPEN if is_to_be_opened(look.task, look.place, look.entry) else None


def _showing(look: _Look) -> TaskStep | None:
    if look.place is None or look.task.drawn is None:
        return None
    slot = look.task.slots[look.place]
    return TaskStep.SHOW if slot.result is not None and not slot.is_shown else None


_STEPS: dict[TaskState, Callable[[_Look], TaskStep | None]] = {
    TaskState.COMMITTING: _committing,
    TaskState.REVEALING: _revealing,
    TaskState.STARTING: _starting,
    TaskState.RUNNING: _running,
    TaskState.ASKING: _asked,
    TaskState.SHOWING: _showing,
    TaskState.VOLUNTEERING: lambda _: None,
    TaskState.OPENING: _opening,
}
