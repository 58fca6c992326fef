"""What the blocks of a chain hold of a task's life: who stated a milestone or a result, and who signed to hold one.

The record of a task says what was stated last; the blocks say who did so, and when. Always: a statement counts for the
record only with the same step, root and provider; who looked at all blocks since the submission and found none knows
that the record is wrong, and who looked at some knows nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_tasks.market.training.tasks import Slot, Task
from gpu_tasks.tasks.task_check import TaskCheck


@dataclass(frozen=True, slots=True)
class StatedStep:
    """A transaction, or an attestation, about a slot."""

    block: int
    place: int
    by: bytes
    """The stash that stated it."""
    number: int | None
    """Of a milestone; None: the result."""
    root: bytes


@dataclass(frozen=True, slots=True)
class Holding:
    """A transaction with which somebody says that it holds a checkpoint."""

    block: int
    by: bytes
    """Who signed it."""
    number: int


@dataclass(frozen=True, slots=True)
class TaskBlocks:
    """What was found in a range of blocks; `is_whole`: in all since the task was submitted."""

    first: int
    last: int
    is_whole: bool
    statements: Sequence[StatedStep]
    holdings: Sequence[Holding]


def check_statements(task: Task, blocks: TaskBlocks) -> TaskCheck:
    """Whether what the record of a task says was stated and signed stands in the blocks."""
    if blocks.first > blocks.last:
        return TaskCheck("statements", is_right=None, says="no block was looked at")
    found, missing = list[str](), list[str]()
    for place, slot in enumerate(task.slots):
        for what, block in _of_slot(place, slot, blocks):
            (missing if block is None else found).append(what if block is None else f"{what} in block {block}")
    if task.checkpoint is not None:
        what = f"milestone {task.checkpoint.milestone.number} held"
        block = _held(task, blocks)
        (missing if block is None else found).append(what if block is None else f"{what} in block {block}")
    looked_at = f"blocks {blocks.first} to {blocks.last}"
    if missing:
        says = f"not in {looked_at}: {', '.join(missing)}"
        return TaskCheck("statements", is_right=False if blocks.is_whole else None, says=says)
    if not found:
        return TaskCheck("statements", is_right=None, says="nothing is stated yet")
    return TaskCheck("statements", is_right=True, says=", ".join(found))


def _of_slot(place: int, slot: Slot, blocks: TaskBlocks) -> list[tuple[str, int | None]]:
    """What is said to have been stated of a slot, with its block."""
    said = []
    if slot.milestone is not None:
        newest = slot.milestone
        block = _stated(place, slot, newest.number, newest.root, blocks)
        said.append((f"milestone {newest.number} of slot {place}", block))
    if slot.commitment is not None:  # of a replica, which opens it by a call of its own
        said.append((f"the commitment of slot {place}", _stated(place, slot, None, slot.commitment, blocks)))
    elif slot.result is not None:
        said.append((f"the result of slot {place}", _stated(place, slot, None, slot.result.root, blocks)))
    return said


def _stated(place: int, slot: Slot, number: int | None, root: bytes, blocks: TaskBlocks) -> int | None:
    wanted = place, slot.provider, number, root
    found = (each for each in blocks.statements if (each.place, each.by, each.number, each.root) == wanted)
    return next((each.block for each in found), None)


def _held(task: Task, blocks: TaskBlocks) -> int | None:
    held = task.checkpoint
    assert held is not None, "somebody holds it"
    wanted = held.holder, held.milestone.number
    return next((each.block for each in blocks.holdings if (each.by, each.number) == wanted), None)
