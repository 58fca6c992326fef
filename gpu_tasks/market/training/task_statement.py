"""A task attestation: a provider's signed statement that it has reached a milestone of a task, or its result.

This module is its form: encoding, signing payload, order in a block. A statement is of one slot in one auction, which
names a leg for good: a runner-up that takes over within an auction is another provider with another device, and who
wins what is left of its own task does so in a later auction. So what was signed for one leg proves nothing in another.
What is wrong in form makes a block invalid; whether the work was right is never decided here.
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
"""Where a result stands among the milestones, which have numbers of a byte: behind them all."""


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
    """The statement, without its signature; the signing payload adds the genesis hash."""

    version: U8
    task: Hash
    auction: U8
    """Which auction of the task gave the slot, counted from 1."""
    place: U8
    provider_key: Hash
    """The ed25519 key that signs."""
    device: Hash
    stated: Stated
    usage: Usage
    """Since the milestone before, or the start; 0 is what was not measured."""
    started_at: BlockNumber
    """The chain's height when the work on it began."""
    finished_at: BlockNumber


@variant(1, name="Task")
class SignedTaskAttestation(AnyAttestation):
    """A statement about a task and the ed25519 signature of `provider_key` over its payload."""

    statement: TaskAttestation
    signature: Signature

    @property
    def subject(self) -> bytes:
        """The task."""
        return self.statement.task

    @property
    def step(self) -> tuple[int, int, int]:
        """The step of the slot: all places of a gang state one before any states the next."""
        return self.statement.auction, step_of(self.statement.stated), self.statement.place


_STATEMENT = codec(TaskAttestation)


def task_signing_payload(genesis: bytes, statement: TaskAttestation) -> bytes:
    """The bytes that the provider key signs."""
    return domain(b"t-attest", genesis, _STATEMENT.encode(statement))


def step_of(stated: Stated) -> int:
    """The number of the milestone that is stated; `RESULT_STEP` for a result."""
    return stated.milestone.number if isinstance(stated, StatedMilestone) else RESULT_STEP


def heights_problem(statement: TaskAttestation, *, slot_started_at: int, height: int) -> str:
    """Why the stated heights, or what was used between them, are impossible, whatever was computed; else empty."""
    if not slot_started_at <= statement.started_at <= statement.finished_at <= height:
        return "began before the slot started, ended before it began, or in the future"
    return impossible_usage(statement.usage, statement.finished_at - statement.started_at)
