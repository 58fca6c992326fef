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


def check_statements(task: Task, task_blocks: TaskBlocks) -> TaskCheck:
    """Check that the blocks contain the statements and signatures that a task's record names."""
    if task_blocks.first > task_blocks.last:
        return TaskCheck("statements", is_right=None, says="no block was read")
    found_statements, missing_statements = list[str](), list[str]()
    for place, slot in enumerate(task.slots):
        for statement_name, stating_block in _statements_of_slot(place, slot, task_blocks):
            (missing_statements if stating_block is None else found_statements).append(
                statement_name if stating_block is None else f"{statement_name} in block {stating_block}"
            )
    if task.checkpoint is not None:
        statement_name = f"milestone {task.checkpoint.milestone.number} held"
        stating_block = _block_of_holding(task, task_blocks)
        (missing_statements if stating_block is None else found_statements).append(
            statement_name if stating_block is None else f"{statement_name} in block {stating_block}"
        )
    looked_at = f"blocks {task_blocks.first} to {task_blocks.last}"
    if missing_statements:
        text = f"not in {looked_at}: {', '.join(missing_statements)}"
        return TaskCheck("statements", is_right=False if task_blocks.is_whole else None, says=text)
    if not found_statements:
        return TaskCheck("statements", is_right=None, says="none yet")
    return TaskCheck("statements", is_right=True, says=", ".join(found_statements))


def _statements_of_slot(place: int, slot: Slot, task_blocks: TaskBlocks) -> list[tuple[str, int | None]]:
    """Return the statements that the record names for a slot, each with its block or None."""
    check_texts = []
    if slot.milestone is not None:
        newest = slot.milestone
        stating_block = _block_of_statement(place, slot, newest.number, newest.root, task_blocks)
        check_texts.append((f"milestone {newest.number} of slot {place}", stating_block))
    if slot.commitment is not None:  # A replica's commitment, which it opens by a call of its own
        check_texts.append(
            (
                f"the commitment of slot {place}",
                _block_of_statement(place, slot, None, slot.commitment, task_blocks),
            )
        )
    elif slot.result is not None:
        check_texts.append(
            (
                f"the result of slot {place}",
                _block_of_statement(place, slot, None, slot.result.root, task_blocks),
            )
        )
    return check_texts


def _block_of_statement(
    place: int, slot: Slot, milestone_number: int | None, state_root: bytes, task_blocks: TaskBlocks
) -> int | None:
    statement_key = place, slot.provider, milestone_number, state_root
    matching_statements = (
        statement
        for statement in task_blocks.statements
        if (statement.place, statement.by, statement.number, statement.root) == statement_key
    )
    return next((statement.block for statement in matching_statements), None)


def _block_of_holding(task: Task, task_blocks: TaskBlocks) -> int | None:
    held = task.checkpoint
    assert held is not None, "a checkpoint has a holder"
    holding_key = held.holder, held.milestone.number
    return next(
        (holding.block for holding in task_blocks.holdings if (holding.by, holding.number) == holding_key), None
    )
