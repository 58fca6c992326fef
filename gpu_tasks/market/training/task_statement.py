"""A task attestation: a provider's signed statement of a milestone or of a result.

This module has its form: encoding, signing payload, order in a block. A statement names one slot in one auction, which
identifies a leg for good. A runner-up that takes over within an auction is another provider with another device. A
provider that wins the rest of its own task does so in a later auction. So a signature for one leg proves nothing in
another. An error of form makes a block invalid. The work itself is never checked here.
"""

from typing import Annotated

from gpu_tasks.market.attestations.kinds import AnyAttestation
from gpu_tasks.market.attestations.usage import Usage, impossible_usage
from gpu_tasks.market.training.tasks import Milestone, TaskResult
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, Tagged, codec, struct, variant
from runtime.encoding.types import BlockNumber, Hash, Signature

TASK_VERSION = 1
RESULT_STEP = 256
"""The step of a result. It sorts behind all milestones, whose numbers fit into a byte."""


@variant(0)
class StatedMilestone:
    """The next milestone of the slot."""

    milestone: Milestone


@variant(1)
class StatedResult:
    """The result of the slot, which is its last milestone."""

    result: TaskResult


Stated = Annotated[StatedMilestone | StatedResult, Tagged("ogpu::TaskStated")]


@struct
class TaskAttestation:
    """The statement, without its signature. The signing payload adds the genesis hash."""

    version: U8
    task: Hash
    auction: U8
    """The auction of the task that gave the slot, counted from 1."""
    place: U8
    provider_key: Hash
    """The ed25519 key that signs."""
    device: Hash
    stated: Stated
    usage: Usage
    """The usage since the previous milestone, or the start. 0 stands for an unmeasured value."""
    started_at: BlockNumber
    """The chain's height when this part of the work began."""
    finished_at: BlockNumber


@variant(1, name="Task")
class SignedTaskAttestation(AnyAttestation):
    """A statement about a task, and the ed25519 signature of `provider_key` over its payload."""

    statement: TaskAttestation
    signature: Signature

    @property
    def subject(self) -> bytes:
        """The task."""
        return self.statement.task

    @property
    def step(self) -> tuple[int, int, int]:
        """The step of the slot. All places of a gang state a step before any of them states the next."""
        return self.statement.auction, step_of(self.statement.stated), self.statement.place


_STATEMENT = codec(TaskAttestation)


def task_signing_payload(genesis_hash: bytes, statement: TaskAttestation) -> bytes:
    """Return the bytes that the provider key signs."""
    # The genesis hash keeps the signature from counting on another chain.
    return domain(b"t-attest", genesis_hash, _STATEMENT.encode(statement))


def step_of(stated: Stated) -> int:
    """Return the number of the stated milestone, or `RESULT_STEP` for a result."""
    return stated.milestone.number if isinstance(stated, StatedMilestone) else RESULT_STEP


def heights_problem(statement: TaskAttestation, *, slot_started_at: int, height: int) -> str:
    """Return the reason why no provider can have stated heights or usage, or "" if they are possible."""
    if not slot_started_at <= statement.started_at <= statement.finished_at <= height:
        return "times out of order, before the slot's start, or in the future"
    return impossible_usage(statement.usage, statement.finished_at - statement.started_at)
