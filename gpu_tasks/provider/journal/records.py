"""What a provider writes down before each step that the world can see.

A race is one attempt at one unit; a case is one seat in a case about a unit, or about a task; of bids and the work that
they win, see `task_records`. The entries of each are written in the
order of this list, each before its step, so what lies in the journal says what may have happened, and what cannot have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.data.sealing import CONTENT_BYTES_MAX
from gpu_tasks.data.unit_input import OUTPUT_BYTES_MAX
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.courts.opinions import Statement
from gpu_tasks.provider.journal.task_records import (
    Bidding,
    BidOver,
    MilestoneFound,
    ProgramBegun,
    ResultFound,
    ResultSalted,
    TaskSending,
)
from runtime.encoding.codec import U32, Bounded, Tagged, codec, struct, variant
from runtime.encoding.types import Balance, BlockNumber, Hash


class Sent(IntEnum):
    """What was handed to the node, or was about to be."""

    COMMIT = 0
    ATTESTATION = 1
    DECLINE = 2


class End(IntEnum):
    """How a race ended for this provider, in the final chain."""

    WON = 0
    WITNESSED = 1
    UNPAID = 2


@struct
class WorkResult:
    """A finished execution as older journals have it: its root is of a form that no chain takes any more."""

    output: Annotated[bytes, Bounded(OUTPUT_BYTES_MAX)]
    output_root: Hash
    output_blob: Hash
    salt: Hash
    usage: Usage
    started_at: BlockNumber
    finished_at: BlockNumber


@struct
class UnitResult:
    """A finished execution: computed once, used for commit, attestation and judges."""

    outcomes: Annotated[bytes, Bounded(CONTENT_BYTES_MAX)]
    """Of all requests of the unit, as its output blob holds them (`gpu_tasks.batches.outcomes`)."""
    output_root: Hash
    output_blob: Hash
    totals: Totals
    salt: Hash
    usage: Usage
    started_at: BlockNumber
    finished_at: BlockNumber


@struct
class Basis:
    """What a result is the result of: whatever a node says of the unit later, nothing is signed for another input."""

    input_root: Hash
    input_commitment: Hash
    workload: Hash
    model: Hash


@variant(0)
class Assigned:
    """Work on a race begins."""

    unit: Hash
    attempt: U32
    device: Hash


@variant(1)
class WorkDone:
    """Work on a race is done; as older journals have it, without what it was the work on."""

    unit: Hash
    attempt: U32
    result: WorkResult


@variant(2)
class Sending:
    """A step of a race goes to the node."""

    unit: Hash
    attempt: U32
    sent: Sent


@variant(3)
class Ended:
    """A race is over."""

    unit: Hash
    attempt: U32
    end: End
    paid: Balance


@variant(4)
class Judged:
    """An opinion is found."""

    unit: Hash
    number: U32
    statement: Statement
    salt: Hash


@variant(5)
class Dismissed:
    """A case is over."""

    unit: Hash
    number: U32


@variant(6)
class WorkBound:
    """Work on a race is done, and on what, as older journals have it."""

    unit: Hash
    attempt: U32
    basis: Basis
    result: WorkResult


@variant(14)
class WorkCounted:
    """Work on a race is done, on what, and the tokens that it took; as older journals have it, without a salt."""

    unit: Hash
    attempt: U32
    basis: Basis
    result: UnitResult


@variant(15)
class WorkSalted:
    """Work on a race is done: as `WorkCounted`, with the salt of its input, which makes leaves of its outcomes."""

    unit: Hash
    attempt: U32
    basis: Basis
    result: UnitResult
    input_salt: Hash


JournalRecord = Annotated[
    Assigned
    | WorkDone
    | Sending
    | Ended
    | Judged
    | Dismissed
    | WorkBound
    | Bidding
    | TaskSending
    | MilestoneFound
    | ResultFound
    | BidOver
    | ProgramBegun
    | ResultSalted
    | WorkCounted
    | WorkSalted,
    Tagged("ogpu::Record"),
]
RECORD = codec(JournalRecord)


@dataclass(slots=True)
class RaceEntry:
    """What the journal says of one race."""

    device: bytes
    result: UnitResult | None = None
    sent: set[Sent] = field(default_factory=set)
    end: End | None = None
    paid: int = 0
    basis: Basis | None = None
    """What the result is of."""
    input_salt: bytes | None = None
    """Of the input that the result is of: who has it shows leaves and needs the input no more. None: written before."""
    looks: int = 0
    """In which round of this process its end was last asked for; in no file."""
    is_noted_refuted: bool = False
    """Whether this process noted that its result was refuted; in no file."""


@dataclass(slots=True)
class CaseEntry:
    """What the journal says of one case."""

    statement: Statement
    salt: bytes
    is_over: bool = False
