"""Who has worked on a task: who began, who took over, from which checkpoint, and why.

An award and its bids say who won; the record says who has the slots now. Always: why somebody is gone is claimed only
where an event tells it, or where nothing else can have been: who is asked to take over after a milestone counted
follows one that died.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cli.output import Account
from gpu_tasks.client.training.block_statements import TaskEvents
from gpu_tasks.market.training.events import SlotSettled
from gpu_tasks.market.training.money import TABLE, TaskOutcome
from gpu_tasks.market.training.selection import Placed
from gpu_tasks.market.training.tasks import Slot, Task, TaskState
from gpu_tasks.tasks.task_check import AuctionRecords, selection_of
from wallet.amounts import Grains

SHIFT_COLUMNS = ("auction", "place", "provider", "role", "from", "price", "why")


@dataclass(frozen=True, slots=True)
class WonSlot:
    """A slot that an auction gave."""

    auction: int
    place: int
    placed: Placed


@dataclass(frozen=True, slots=True)
class WorkShift:
    """Somebody's work on a slot: `outcome` is None where it goes on, or nobody can tell how it ended."""

    auction: int
    place: int
    slot: Slot
    took_over: bool
    behind: int | None
    """Milestones that were done before it; None: that is not told any more."""
    outcome: TaskOutcome | None
    why: str
    is_over: bool
    event: SlotSettled | None = None
    """What the block of its end says, where the node shows that."""

    @property
    def provider(self) -> bytes:
        """Who worked."""
        return self.slot.provider


def shifts_of(task: Task, auctions: Sequence[AuctionRecords], told: TaskEvents) -> list[WorkShift]:
    """All who had a slot, as far as award, record and events tell; `auctions` from the first one on."""
    found = list[WorkShift]()
    for number, records in enumerate(auctions, 1):
        winners = _winners(records)
        if number < task.auction or not task.slots:
            found += [_gone(task, WonSlot(number, *each), found, told, None) for each in enumerate(winners)]
            continue
        for place, slot in enumerate(task.slots):
            has_changed = place < len(winners) and winners[place].bid.device != slot.device
            if has_changed:
                found.append(_gone(task, WonSlot(number, place, winners[place]), found, told, slot))
            found.append(_present(task, place, slot, told, has_changed=has_changed))
    return found


def shift_rows(shifts: Sequence[WorkShift], *, is_time: bool = False) -> list[dict[str, Any]]:
    """Shifts as they are shown; of bought time, `is_time`, no checkpoint is handed over."""
    return [
        {
            "auction": each.auction,
            "place": each.place,
            "provider": Account(each.provider),
            "role": "took over" if each.took_over else "began" if not each.behind else "went on",
            "from": None if each.behind is None else _origin(each.behind, is_time=is_time),
            "price": Grains(each.slot.price),
            "started_in_block": each.slot.started_at or None,
            "outcome": None if each.outcome is None else each.outcome.name.lower(),
            "why": each.why,
        }
        for each in shifts
    ]


def _origin(behind: int, *, is_time: bool) -> str:
    if not behind:
        return "the beginning"
    return f"interval {behind + 1}, its program begun anew" if is_time else f"the checkpoint of milestone {behind}"


def _winners(records: AuctionRecords) -> tuple[Placed, ...]:
    award = records.award
    return () if award is None or award.seed is None else selection_of(award, records.bids).winners


def _present(task: Task, place: int, slot: Slot, told: TaskEvents, *, has_changed: bool) -> WorkShift:
    is_over = task.state is TaskState.ENDED
    outcome = (slot.outcome or task.outcome) if is_over else slot.outcome
    why = "it works on it" if outcome is None else TABLE[outcome].says
    if not is_over and not slot.started_at:
        why = "it may start"
    elif not is_over and slot.result is not None:
        why = "it has stated its result"
    events = told.settled(slot.provider, place)
    event = events[0][1] if events and is_over else None
    return WorkShift(task.auction, place, slot, has_changed, task.behind, outcome, why, is_over, event)


def _gone(task: Task, won: WonSlot, before: Sequence[WorkShift], told: TaskEvents, successor: Slot | None) -> WorkShift:
    """A winner that has its slot no more; `before`: all whose shifts ended earlier."""
    bid = won.placed.bid
    height, event = _end(task, won, before, told)
    slot = Slot(bid.provider, bid.device, won.placed.pay, bid.blocks, bid.collateral)
    outcome = event.outcome if event is not None else _inferred(task, won.auction, successor)
    if outcome is not None:
        why = TABLE[outcome].says + ("" if event is None else f", in block {height}")
    elif successor is not None:
        why = "it did not start, or stated no milestone that counted: the node does not show which any more"
    else:
        why = "it is gone: why, the node does not show any more"
    behind = 0 if won.auction == 1 else None
    return WorkShift(won.auction, won.place, slot, False, behind, outcome, why, True, event)


def _end(task: Task, won: WonSlot, before: Sequence[WorkShift], told: TaskEvents) -> tuple[int, SlotSettled | None]:
    """The event of the end of a shift with its height; of an earlier auction only where all events are there."""
    provider = won.placed.bid.provider
    events = told.settled(provider, won.place)
    if won.auction == task.auction:
        return events[0] if events else (0, None)
    earlier = sum((each.provider, each.place) == (provider, won.place) for each in before)
    return events[-1 - earlier] if told.is_whole and earlier < len(events) else (0, None)


def _inferred(task: Task, number: int, successor: Slot | None) -> TaskOutcome | None:
    """How a lone winner ended of whom only what follows is known.

    While nothing counted it may as well not have started. Once a milestone counts the runner-up is bound no more, and
    is asked only after a death.
    """
    is_asked = successor is not None or task.state is TaskState.ASKING
    has_counted = number == 1 == task.auction and task.order.slots == 1 and task.behind > 0
    return TaskOutcome.DIED if is_asked and has_counted else None
