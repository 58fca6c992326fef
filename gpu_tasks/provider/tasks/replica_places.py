"""A replicated task for a provider with a place or an offer, as a function of chain and journal.

An offer is filed under the number of its draw, a bid under that of its auction. Invariant: a provider's commitment is
to the journal's result, with a secret salt.
"""

from __future__ import annotations

from gpu_tasks.market.training.bids import DRAWS_FROM
from gpu_tasks.market.training.orders import is_replicated
from gpu_tasks.market.training.replicas import replica_commitment
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.tasks import Slot, Task, TaskResult, TaskState
from gpu_tasks.provider.journal.task_records import TaskEntry, TaskKey

NOTHING = bytes(32)


def sale_number(task: Task) -> int:
    """Return the present number of a bid or an offer for a task: that of its auction or of its draw."""
    return DRAWS_FROM + task.draws if task.state is TaskState.VOLUNTEERING else task.auction


def is_offer(auction: int) -> bool:
    """Return True if the number is that of a draw."""
    return auction > DRAWS_FROM


def is_of_leg(task: Task, auction: int) -> bool:
    """Return True if a bid or an offer of this number may belong to the present leg."""
    return 0 < auction - DRAWS_FROM <= task.draws if is_offer(auction) else auction == task.auction


def may_offer(task: Task, auction: int, *, is_again: bool) -> bool:
    """Return True if a device may be offered in this draw.

    A full draw accepts no second offer: it holds larger bonds.
    """
    is_draw_open = task.state is TaskState.VOLUNTEERING and auction == sale_number(task) and task.deadline > 0
    return is_draw_open and not (is_again and task.volunteers >= BIDS_MAX)


def works_now(task: Task, place: int | None) -> bool:
    """Return True if the provider of this place works at present and has not ended."""
    return place is not None and task.slots[place].outcome is None


def is_to_be_bound(task: Task, place: int | None, entry: TaskEntry) -> bool:
    """Return True if the journal's result still needs its commitment."""
    return (
        works_now(task, place)
        and place is not None
        and task.slots[place].commitment is None
        and entry.result is not None
        and entry.result_salt is not None
    )


def is_to_be_opened(task: Task, place: int | None, entry: TaskEntry) -> bool:
    """Return True if the committed result is due to be opened."""
    if place is None or entry.result is None or task.state is not TaskState.OPENING or not works_now(task, place):
        return False
    slot = task.slots[place]
    return slot.commitment is not None and slot.result is None


def bound_result(genesis_hash: bytes, task_key: TaskKey, place: int, slot: Slot, entry: TaskEntry) -> TaskResult:
    """Return the statement of an unopened result, which contains only the commitment."""
    assert entry.result is not None, "the journal has the commitment"
    assert entry.result_salt is not None, "the journal has its salt"
    # The result stays secret until all replicas have committed, so that none can copy it.
    own_commitment = replica_commitment(
        genesis_hash, task_key[0], place, slot.provider, entry.result, entry.result_salt
    )
    return TaskResult(own_commitment, NOTHING, 0)


def why_offer_over(task: Task, auction: int, place: int | None, height: int, *, is_there: bool) -> str:
    """Return the reason that no work of an offer is left, by a final block; empty while some may be."""
    if place is not None:
        return ""
    if task.state is TaskState.VOLUNTEERING and auction == sale_number(task):
        is_closed = not task.deadline or height > task.deadline
        return "the offer was too late" if is_closed and not is_there else ""
    return "other providers were drawn"


def why_replica_waits(task: Task, place: int | None) -> str:
    """Return a sentence about the event that a replicated task waits for."""
    until_text = f"until block {task.deadline}"
    match task.state:
        case TaskState.VOLUNTEERING:
            draw_text = f"the beacon of block {task.beacon_at} draws once that block is final"
            return f"replicas are sought {until_text}" if task.deadline else draw_text
        case TaskState.OPENING:
            return f"the other results are revealed {until_text}"
        case _:
            computing_text = (
                "it is being computed, here or by others" if works_now(task, place) else "others compute it"
            )
            return f"{computing_text}, {until_text}"


def seeks_devices(task: Task, stash: bytes) -> bool:
    """Return True if a provider may offer a device for the task."""
    has_slot = any(taken_slot.provider == stash for taken_slot in task.slots)
    return is_replicated(task.order) and task.state is TaskState.VOLUNTEERING and task.deadline > 0 and not has_slot
