"""A task that several compute, as a provider sees it with a place in it, or an offer for one: by chain and journal.

An offer goes under the number of its draw, where a bid goes under that of its auction. Always: what one is bound to is
what the journal holds, with a salt that nobody else has seen.
"""

from __future__ import annotations

from gpu_tasks.market.training.bids import DRAWS_FROM
from gpu_tasks.market.training.orders import is_replicated
from gpu_tasks.market.training.replicas import replica_commitment
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.tasks import Slot, Task, TaskResult, TaskState, panel
from gpu_tasks.provider.journal.task_records import TaskEntry, TaskKey

NOTHING = bytes(32)


def sale_number(task: Task) -> int:
    """Under which number one bids for a task now, or offers a device: of its auction, or of its draw."""
    return DRAWS_FROM + task.draws if task.state is TaskState.VOLUNTEERING else task.auction


def is_offer(number: int) -> bool:
    """Whether it is that of a draw."""
    return number > DRAWS_FROM


def is_of_leg(task: Task, number: int) -> bool:
    """Whether a bid or an offer of this number may have a part in the leg that goes on."""
    return 0 < number - DRAWS_FROM <= task.draws if is_offer(number) else number == task.auction


def may_offer(task: Task, number: int, *, is_again: bool) -> bool:
    """Whether a device is offered in the draw of this number now; once, where that is full: larger bonds are there."""
    is_open = task.state is TaskState.VOLUNTEERING and number == sale_number(task) and task.deadline > 0
    return is_open and not (is_again and task.volunteers >= BIDS_MAX)


def works_now(task: Task, place: int | None) -> bool:
    """Whether who has this place is one of those who work now, and not out."""
    return place is not None and place in panel(task) and task.slots[place].outcome is None


def is_to_be_bound(task: Task, place: int | None, entry: TaskEntry) -> bool:
    """Whether a result that is in the journal is still to be committed to."""
    return (
        works_now(task, place)
        and place is not None
        and task.slots[place].commitment is None
        and entry.result is not None
        and entry.result_salt is not None
    )


def is_to_be_opened(task: Task, place: int | None, entry: TaskEntry) -> bool:
    """Whether what one is bound to is to be shown now."""
    if place is None or entry.result is None or task.state is not TaskState.OPENING or not works_now(task, place):
        return False
    slot = task.slots[place]
    return slot.commitment is not None and slot.result is None


def bound_result(genesis: bytes, key: TaskKey, place: int, slot: Slot, entry: TaskEntry) -> TaskResult:
    """What is stated of a result that is not opened yet: the commitment to it, and nothing else."""
    assert entry.result is not None, "what one is bound to is in the journal"
    assert entry.result_salt is not None, "with its salt"
    sealed = replica_commitment(genesis, key[0], place, slot.provider, entry.result, entry.result_salt)
    return TaskResult(sealed, NOTHING, 0)


def why_offer_over(task: Task, number: int, place: int | None, height: int, *, is_there: bool) -> str:
    """Why nothing of an offer is left to do, by a final block; empty while something may be."""
    if place is not None:
        return ""
    if task.state is TaskState.VOLUNTEERING and number == sale_number(task):
        is_closed = not task.deadline or height > task.deadline
        return "the offer did not come in time" if is_closed and not is_there else ""
    return "others were drawn"


def why_replica_waits(task: Task, place: int | None) -> str:
    """What it waits for, in a sentence."""
    until = f"until block {task.deadline}"
    match task.state:
        case TaskState.VOLUNTEERING:
            who = "its customer disputes what was found: jurors" if task.jury_from else "replicas"
            drawn = f"the beacon of block {task.beacon_at} draws, once that is final"
            return f"{who} are sought {until}" if task.deadline else drawn
        case TaskState.OPENING:
            return f"what the others found is opened {until}"
        case _:
            who = "it is computed, here or by others" if works_now(task, place) else "others compute it"
            return f"{who}, {until}"


def seeks_devices(task: Task, stash: bytes) -> bool:
    """Whether a provider may offer a device for it."""
    is_in = any(slot.provider == stash for slot in task.slots)
    return is_replicated(task.order) and task.state is TaskState.VOLUNTEERING and task.deadline > 0 and not is_in
