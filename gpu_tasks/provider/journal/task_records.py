"""What a provider writes down about tasks, before each step that the world can see.

A bid is one of one auction of one task; what is won by it, taken over or stood by for goes under the same name. Its
entries are written in the order of this list, each before its step: a bid with its salt before it is committed to, a
milestone or a result before it is stated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated

from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.bids import BidOffer
from gpu_tasks.market.training.task_statement import RESULT_STEP
from gpu_tasks.market.training.tasks import Milestone, TaskResult
from runtime.encoding.codec import U8, Bounded, struct, variant
from runtime.encoding.types import Balance, Hash

WHY_BYTES_MAX = 200

TaskKey = tuple[bytes, int]
"""A task, and which of its auctions."""


class TaskSent(IntEnum):
    """What was handed to the node about a task, or was about to be."""

    COMMIT = 0
    REVEAL = 1
    START = 2
    REPORT = 3
    MILESTONE = 4
    FINISH = 5
    HOLD = 6
    SHOW = 7
    LEAVE = 8
    VOLUNTEER = 9
    OPEN = 10


@struct
class BidBasis:
    """What was bid for: whatever a node says of the task later, nothing else is computed under this bid."""

    task_hash: Hash
    input_root: Hash
    input_blob: Hash


@variant(7)
class Bidding:
    """A bid is about to be committed to; no other is made in this auction."""

    task: Hash
    auction: U8
    device: Hash
    basis: BidBasis
    offer: BidOffer
    salt: Hash


@variant(8)
class TaskSending:
    """A step goes to the node."""

    task: Hash
    auction: U8
    sent: TaskSent


@variant(9)
class MilestoneFound:
    """A milestone is computed, and its checkpoint is in the store."""

    task: Hash
    auction: U8
    milestone: Milestone
    usage: Usage
    """Since the milestone before, as far as it was measured."""


@variant(10)
class ResultFound:
    """A task is computed to its end, and the output is in the store."""

    task: Hash
    auction: U8
    result: TaskResult
    usage: Usage
    """Since the last milestone."""


@variant(11)
class BidOver:
    """Nothing of a bid is left to do, by the final chain."""

    task: Hash
    auction: U8
    why: Annotated[str, Bounded(WHY_BYTES_MAX)]
    paid: Balance


@variant(12)
class ProgramBegun:
    """A customer's program is about to run: who has lost it since cannot go on with it."""

    task: Hash
    auction: U8


@variant(13)
class ResultSalted:
    """The salt of a commitment to a result, which is found next: nobody is told it before the result is opened."""

    task: Hash
    auction: U8
    salt: Hash


TaskRecord = Bidding | TaskSending | MilestoneFound | ResultFound | BidOver | ProgramBegun | ResultSalted


@dataclass(slots=True)
class TaskEntry:
    """What the journal says of one bid, and of what came of it."""

    device: bytes
    basis: BidBasis
    offer: BidOffer
    salt: bytes
    sent: set[TaskSent] = field(default_factory=set)
    milestones: dict[int, Milestone] = field(default_factory=dict)
    """By number, counted over all legs."""
    result: TaskResult | None = None
    usages: dict[int, Usage] = field(default_factory=dict)
    """What each milestone took; the result's under `RESULT_STEP`."""
    result_salt: bytes | None = None
    is_begun: bool = False
    """Whether a customer's program was begun."""
    end: str | None = None
    """Why it is over."""
    paid: int = 0


def taken(tasks: dict[TaskKey, TaskEntry], record: TaskRecord) -> None:
    """Have a record change what is known of bids."""
    key = record.task, record.auction
    match record:
        case Bidding():
            tasks[key] = TaskEntry(record.device, record.basis, record.offer, record.salt)
        case TaskSending():
            tasks[key].sent.add(record.sent)
        case MilestoneFound():
            tasks[key].milestones[record.milestone.number] = record.milestone
            tasks[key].usages[record.milestone.number] = record.usage
        case ResultFound():
            tasks[key].result = record.result
            tasks[key].usages[RESULT_STEP] = record.usage
        case ResultSalted():
            tasks[key].result_salt = record.salt
        case ProgramBegun():
            tasks[key].is_begun = True
        case BidOver():
            tasks[key].end, tasks[key].paid = record.why, record.paid


def records_of(key: TaskKey, entry: TaskEntry) -> list[TaskRecord]:
    """Records that replay to an entry."""
    found: list[TaskRecord] = [Bidding(*key, entry.device, entry.basis, entry.offer, entry.salt)]
    if entry.end is not None:
        return [*found, BidOver(*key, entry.end, entry.paid)]
    found += [TaskSending(*key, sent) for sent in sorted(entry.sent)]
    found += [ProgramBegun(*key)] * entry.is_begun
    usages = entry.usages
    found += [MilestoneFound(*key, milestone, usages[number]) for number, milestone in sorted(entry.milestones.items())]
    if entry.result_salt is not None:
        found.append(ResultSalted(*key, entry.result_salt))
    return found if entry.result is None else [*found, ResultFound(*key, entry.result, usages[RESULT_STEP])]
