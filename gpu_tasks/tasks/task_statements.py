"""A task's statements in the blocks of a chain: milestones and results by providers, and acknowledged checkpoints.

The record of a task has the newest statements; the blocks have their signers and times. Invariant: a statement counts
for the record only with the same step, root and provider. A missing statement proves the record wrong only if all
blocks since the submission were read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_tasks.market.training.tasks import Slot, Task
from gpu_tasks.tasks.task_check import TaskCheck


@dataclass(frozen=True, slots=True)
class StatedStep:
    """A transaction or an attestation about a slot."""

    block: int
    place: int
    by: bytes
    """The stash that signed it."""
    number: int | None
    """The milestone's number, or None for the result."""
    root: bytes


@dataclass(frozen=True, slots=True)
class Holding:
    """A transaction whose signer acknowledges that it holds a checkpoint."""

    block: int
    by: bytes
    """The signer."""
    number: int


@dataclass(frozen=True, slots=True)
class TaskBlocks:
    """The findings in a range of blocks. `is_whole` is True if it covers all blocks since the submission."""

    first: int
    last: int
    is_whole: bool
    statements: Sequence[StatedStep]
    holdings: Sequence[Holding]


def check_statements(task: Task, blocks: TaskBlocks) -> TaskCheck:
    """Check that the blocks contain the statements and signatures that a task's record names."""
    if blocks.first > blocks.last:
        return TaskCheck("statements", is_right=None, says="no block was read")
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
        return TaskCheck("statements", is_right=None, says="none yet")
    return TaskCheck("statements", is_right=True, says=", ".join(found))


def _of_slot(place: int, slot: Slot, blocks: TaskBlocks) -> list[tuple[str, int | None]]:
    """Return the statements that the record names for a slot, each with its block or None."""
    said = []
    if slot.milestone is not None:
        newest = slot.milestone
        block = _stated(place, slot, newest.number, newest.root, blocks)
        said.append((f"milestone {newest.number} of slot {place}", block))
    if slot.commitment is not None:  # A replica's commitment, which it opens by a call of its own
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
    assert held is not None, "a checkpoint has a holder"
    wanted = held.holder, held.milestone.number
    return next((each.block for each in blocks.holdings if (each.by, each.number) == wanted), None)
