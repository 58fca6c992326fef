"""What a provider writes down of races and cases before each step that the world can see.

A race is one attempt at one unit. A case is one seat in a case about a unit, a leaf or a task.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.data.sealing import CONTENT_BYTES_MAX
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.courts.opinions import Statement
from runtime.encoding.codec import Bounded, struct
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


@struct
class RaceEntry:
    """What the journal says of one race."""

    device: Hash
    result: UnitResult | None = None
    sent: Annotated[tuple[Sent, ...], Bounded(len(Sent))] = ()
    end: End | None = None
    paid: Balance = 0
    basis: Basis | None = None
    """What the result is of."""
    input_salt: Hash | None = None
    """Of the input that the result is of: it makes leaves of the outcomes, so that the input is needed no more."""


@struct
class CaseEntry:
    """What the journal says of one case."""

    statement: Statement
    salt: Hash
    is_over: bool = False
