"""A prepared task to its order, as the pallet of tasks takes it.

Invariant: values that the file leaves to the chain's defaults stay open in the order. The chain's terms for an order
are those that `canonical.terms_of` shows before it is sent.
"""

from dataclasses import dataclass

from gpu_tasks.market.training.life.submitting import run_blocks_max
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.tasks.canonical import PreparedTask, terms_of
from gpu_tasks.tasks.training_task import TaskFile

RUN_BLOCKS_LEAST = 10
"""The least time of a checker in blocks, however small the work, because it fetches states before it computes."""
AUCTIONS = 2
"""If a task's winner and its standby fail, the rest is sold once more."""


@dataclass(frozen=True, slots=True)
class StoredInput:
    """A sealed and stored request."""

    root: bytes
    blob: bytes
    """The blob's address."""
    sealed_at: int
    """The height at which the input was sealed. Every key holder at that height can read it."""


def order_of(file: TaskFile, prepared: PreparedTask, stored: StoredInput, rules: TaskRules, slot_ms: int) -> TaskOrder:
    """Return the order. Raise TaskFileError if a chain with these slots would refuse its terms."""
    task, canonical = file.task, prepared.canonical
    terms = terms_of(file, prepared.segments, rules, slot_ms)
    return TaskOrder(
        task_hash=prepared.task_hash,
        workload=canonical.workload,
        input_root=stored.root,
        input_blob=stored.blob,
        sealed_at=stored.sealed_at,
        classes=sum(1 << kind for kind in canonical.classes),
        milestones=canonical.milestones,
        segments=prepared.segments,
        run_blocks=run_blocks(terms.blocks_max),
        price_max=terms.price_max,
        time_value=None if task.time_value is None else terms.time_value,
        loss=task.loss,
        blocks_max=terms.blocks_max,
        collateral_min=task.collateral,
        slots=terms.slots,
        auctions=AUCTIONS,
        check_ppm=prepared.check_ppm,
    )


def run_blocks(blocks_max: int) -> int:
    """Return the most blocks of a computation of the whole: those of the slowest possible winner."""
    # The chain refuses an order with more than `run_blocks_max`.
    return min(max(blocks_max, RUN_BLOCKS_LEAST), run_blocks_max(blocks_max))
