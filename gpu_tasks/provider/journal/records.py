"""Journal records about races, checks and votes, written before each publicly visible step.

A race is one attempt at one unit. A finding is that of one check of a claim, and a vote that of one round of a dispute.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.data.sealing import CONTENT_BYTES_MAX
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.claims.findings import Finding, ItemVote
from runtime.encoding.codec import Bounded, struct
from runtime.encoding.types import Balance, BlockNumber, Hash


class Sent(IntEnum):
    """A message that was given to the node, or was about to be."""

    COMMIT = 0
    ATTESTATION = 1
    DECLINE = 2
    PASS = 3


class End(IntEnum):
    """The outcome of a race for this provider, in the final chain."""

    WON = 0
    WITNESSED = 1
    UNPAID = 2


@struct
class UnitResult:
    """A finished execution: computed once, and used for the commitment, the attestation, checkers and voters."""

    outcomes: Annotated[bytes, Bounded(CONTENT_BYTES_MAX)]
    """The outcomes of all requests of the unit, as in its output blob (`gpu_tasks.batches.outcomes`)."""
    output_root: Hash
    output_blob: Hash
    totals: Totals
    salt: Hash
    usage: Usage
    started_at: BlockNumber
    finished_at: BlockNumber


@struct
class Basis:
    """The input and workload of a result.

    Nothing is signed for another input, even if a node later reports one.
    """

    input_root: Hash
    input_commitment: Hash
    workload: Hash
    model: Hash


@struct
class RaceEntry:
    """The journal's record of one race."""

    device: Hash
    result: UnitResult | None = None
    sent: Annotated[tuple[Sent, ...], Bounded(len(Sent))] = ()
    end: End | None = None
    paid: Balance = 0
    basis: Basis | None = None
    """The basis of the result."""
    input_salt: Hash | None = None
    """The salt of the result's input. With it, the leaves of the outcomes follow without the input."""


@struct
class FindingEntry:
    """The journal's record of one check of a claim of another provider."""

    statement: Finding
    salt: Hash
    is_over: bool = False


@struct
class VoteEntry:
    """The journal's record of one vote in a round of a dispute."""

    statement: ItemVote
    salt: Hash
    is_over: bool = False
