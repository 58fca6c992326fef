"""How slots and tasks ended on a chain, as a run counts it, and which rows of the money table it must have seen."""

from collections.abc import Iterable, Iterator
from typing import Any

from gpu_tasks.market.training.events import BidEnded, SlotSettled, StandbyReleased, TaskEnded
from gpu_tasks.market.training.money import TaskOutcome

RARE = frozenset({TaskOutcome.UNDECIDED})
"""Judges of a dispute must differ, and nobody appeal."""

WITHOUT_SLOTS = (TaskOutcome.NO_AWARD, TaskOutcome.CANCELLED_BEFORE_AWARD)


def task_ends(happened: Iterable[Any]) -> Iterator[str]:
    """The rows of the money table that the events of a block tell of; a task's own end counts where no slot was."""
    for event in happened:
        if isinstance(event, SlotSettled) or (isinstance(event, TaskEnded) and event.outcome in WITHOUT_SLOTS):
            yield event.outcome.name
        elif isinstance(event, StandbyReleased):
            yield TaskOutcome.STOOD_BY.name
        elif isinstance(event, BidEnded) and event.burned:
            yield TaskOutcome.NOT_REVEALED.name


def unseen(ends: Iterable[str]) -> list[str]:
    """The rows that have not come, rare ones apart."""
    seen = set(ends)
    return [outcome.name for outcome in TaskOutcome if outcome not in RARE and outcome.name not in seen]
