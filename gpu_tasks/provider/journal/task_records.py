"""Journal records about tasks, written before each publicly visible step.

A record belongs to one auction of one task. It covers the bid, and the work after a win, a takeover or as standby. A
bid and its salt are written before the commitment, a milestone or a result before it is stated.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.bids import BidOffer
from gpu_tasks.market.training.orders import INTERVALS_MAX
from gpu_tasks.market.training.task_statement import RESULT_STEP
from gpu_tasks.market.training.tasks import Milestone, TaskResult
from runtime.encoding.codec import Bounded, struct
from runtime.encoding.types import Balance, Hash

WHY_BYTES_MAX = 200

TaskKey = tuple[bytes, int]
"""A task's id and the number of its auction."""


class TaskStep(IntEnum):
    """A publicly visible step about a task. The journal notes each step that was taken or was about to be."""

    COMMIT = 0
    REVEAL = 1
    START = 2
    REPORT = 3
    """Report an input that is not available."""
    MILESTONE = 4
    FINISH = 5
    HOLD = 6
    """Sign that the winner's stated checkpoint is stored here."""
    LEAVE = 8
    """Leave a task whose sold time this provider cannot deliver."""
    VOLUNTEER = 9
    """Offer a device as a replica."""
    OPEN = 10
    """Open the result that a replica committed to."""


@struct
class BidBasis:
    """The task and input of a bid.

    Nothing else is computed under this bid, even if a node later reports another task.
    """

    task_hash: Hash
    input_root: Hash
    input_blob: Hash


@struct
class FoundMilestone:
    """A computed milestone, with its checkpoint in the store."""

    milestone: Milestone
    usage: Usage
    """The usage since the previous milestone, as far as it was measured."""


@struct
class TaskEntry:
    """The journal's record of one bid and its consequences."""

    device: Hash
    basis: BidBasis
    offer: BidOffer
    salt: Hash
    sent: Annotated[tuple[TaskStep, ...], Bounded(len(TaskStep))] = ()
    found: Annotated[tuple[FoundMilestone, ...], Bounded(INTERVALS_MAX)] = ()
    result: TaskResult | None = None
    """The result of a completed task. Its output is in the store."""
    result_usage: Usage | None = None
    """The usage since the last milestone."""
    result_salt: Hash | None = None
    """The salt of the commitment to the result, secret until the result is opened."""
    is_begun: bool = False
    """True if a customer's program was started. A provider that lost it cannot continue it."""
    end: Annotated[str, Bounded(WHY_BYTES_MAX)] | None = None
    """The reason that no work is left, by the final chain."""
    paid: Balance = 0

    @property
    def milestones(self) -> dict[int, Milestone]:
        """The milestones by number, counted over all legs."""
        return {found.milestone.number: found.milestone for found in self.found}

    @property
    def usages(self) -> dict[int, Usage]:
        """The usage for each milestone. The result's is under `RESULT_STEP`."""
        usages = {found.milestone.number: found.usage for found in self.found}
        return usages if self.result_usage is None else {**usages, RESULT_STEP: self.result_usage}
