"""What a provider writes down about tasks, before each step that the world can see.

A bid is one of one auction of one task; what is won by it, taken over or stood by for goes under the same name. A bid
with its salt is written before it is committed to, a milestone or a result before it is stated.
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
"""A task, and which of its auctions."""


class TaskStep(IntEnum):
    """A step about a task that the world sees. The journal notes those that were taken, or were about to be."""

    COMMIT = 0
    REVEAL = 1
    START = 2
    REPORT = 3
    """Report an input that is nowhere to be had."""
    MILESTONE = 4
    FINISH = 5
    HOLD = 6
    """Sign that the checkpoint that the winner stated is here."""
    SHOW = 7
    LEAVE = 8
    """Leave a task whose time this provider sold and cannot give."""
    VOLUNTEER = 9
    """Offer a device as a replica."""
    OPEN = 10
    """Open the result that a replica is bound to."""
    APPEAL = 11
    """In no journal: the chain shows it."""


@struct
class BidBasis:
    """What was bid for: whatever a node says of the task later, nothing else is computed under this bid."""

    task_hash: Hash
    input_root: Hash
    input_blob: Hash


@struct
class FoundMilestone:
    """A milestone that is computed, with its checkpoint in the store."""

    milestone: Milestone
    usage: Usage
    """Since the milestone before, as far as it was measured."""


@struct
class TaskEntry:
    """What the journal says of one bid, and of what came of it."""

    device: Hash
    basis: BidBasis
    offer: BidOffer
    salt: Hash
    sent: Annotated[tuple[TaskStep, ...], Bounded(len(TaskStep))] = ()
    found: Annotated[tuple[FoundMilestone, ...], Bounded(INTERVALS_MAX)] = ()
    result: TaskResult | None = None
    """Of a task that is computed to its end, with the output in the store."""
    result_usage: Usage | None = None
    """Since the last milestone."""
    result_salt: Hash | None = None
    """Of a commitment to the result: nobody is told it before the result is opened."""
    is_begun: bool = False
    """Whether a customer's program was begun: a provider that has lost it cannot go on with it."""
    end: Annotated[str, Bounded(WHY_BYTES_MAX)] | None = None
    """Why nothing is left to do, by the final chain."""
    paid: Balance = 0

    @property
    def milestones(self) -> dict[int, Milestone]:
        """By number, counted over all legs."""
        return {each.milestone.number: each.milestone for each in self.found}

    @property
    def usages(self) -> dict[int, Usage]:
        """What each milestone took; the result's under `RESULT_STEP`."""
        usages = {each.milestone.number: each.usage for each in self.found}
        return usages if self.result_usage is None else {**usages, RESULT_STEP: self.result_usage}
