"""The search for a task's wrong result: compute the run again, and find the first wrong segment of a stated trace.

Invariant: the accused segment belongs to the leg that its provider ran, and begins with a right state. So judges that
compute it find the same. No provider answers for an earlier provider's work.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_tasks.market.training.fraud_claims import claim_bond, claim_commitment, reward_of
from gpu_tasks.market.training.showing import own_segments
from gpu_tasks.market.training.tasks import Milestone, Task, TaskState
from gpu_tasks.provider.chain.port import Identity, TaskPort
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.tasks.checkpoint_blobs import fetch_run
from gpu_tasks.provider.tasks.task_runs import prepared_run
from gpu_tasks.traces.trace import TraceFraudProof, has_form, proof_of_fraud, trace_root
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, DecodeError, codec, struct
from runtime.encoding.types import Balance
from wallet.errors import CodedError, KeyFileError
from wallet.private_file import read_private, replace

KEPT_BYTES_MAX = 4_096
"""A proof has two paths of ten hashes each."""
COMPUTING = (TaskState.STARTING, TaskState.RUNNING, TaskState.SUBMITTED)
"""The prover computes at the same time as the provider, because little time remains after a result."""
BEFORE = (TaskState.COMMITTING, TaskState.REVEALING, TaskState.AWARDING, TaskState.ASKING)


class CannotProveError(CodedError):
    """Nothing can be proved about a task now, or not by this provider. The text states the reason."""


@struct
class Fraud:
    """A slot with a wrong result, and the proof."""

    place: U8
    proof: TraceFraudProof
    bond: Balance
    """Grains that the claim locks, and that a wrong proof costs."""
    reward: Balance
    """Grains that a right proof earns, beside the returned bond."""

    def salt(self, identity: Identity, task_id: bytes) -> bytes:
        """Return the claim's salt. It is the same after a crash, and only the provider's key can derive it."""
        return blake2_256(identity.key.sign(domain(b"salt", identity.genesis, task_id + bytes((self.place,)))))

    def commitment(self, identity: Identity, task_id: bytes) -> bytes:
        """Return the commitment of the claim."""
        claim_salt = self.salt(identity, task_id)
        return claim_commitment(identity.genesis, task_id, identity.stash, self.place, self.proof, claim_salt)


_FRAUD = codec(Fraud)


@dataclass(frozen=True, slots=True)
class Step:
    """The progress of a search."""

    waits_for: str
    """The awaited thing; empty during computation."""
    done: int = 0
    segments: int = 0


def why_not(task: Task | None, stash: bytes) -> str | None:
    """Return the reason that a provider can never prove anything about a task; None if it may."""
    if task is None:
        return "the chain has no such task (it drops a task some time after its end)"
    if not task.order.segments:
        return "it has no trace; its customer may dispute the result, and judges compute all of it"
    # The chain refuses such a proof, so nothing is computed for it.
    if task.customer == stash or any(slot.provider == stash for slot in task.slots):
        return "this provider takes part in it, and the chain takes no proof from customer or provider"
    if task.accepted is not None:
        return "its customer has accepted the result"
    if task.state not in (*BEFORE, *COMPUTING):
        return f"it is {task.state.name.lower()}; a proof is possible only after a result and before a court"
    return None


async def found_or_searched(
    parts: Parts[TaskPort],
    path: Path,
    base_path: Path,
    task_id: bytes,
    report_step: Callable[[Step], None],
    looks: AsyncIterator[object],
) -> Fraud | None:
    """Return the result of `search`. It is stored in `path`, so an interruption before the proof repeats nothing.

    A prover that had to compute a run again would be late, and lose the claim's place and bond.
    """
    kept_fraud = _kept_fraud(path, task_id)
    task = (await parts.chain.tasks([task_id], final=True)).get(task_id)
    if kept_fraud is not None and task is not None and _still_proves(kept_fraud, task, parts.identity.stash):
        return kept_fraud
    found_fraud = await search(parts, base_path, task_id, report_step, looks)
    if found_fraud is not None:
        # On the disk before anything is sent: the run took long to compute, and the window of acceptance is short.
        replace(_fraud_file(path, task_id), _FRAUD.encode(found_fraud))
    return found_fraud


def forget(path: Path, task_id: bytes) -> None:
    """Delete the stored proof of a task after it was shown."""
    _fraud_file(path, task_id).unlink(missing_ok=True)


def _kept_fraud(path: Path, task_id: bytes) -> Fraud | None:
    try:
        return _FRAUD.decode(read_private(_fraud_file(path, task_id), KEPT_BYTES_MAX))
    except (FileNotFoundError, KeyFileError, DecodeError):
        return None  # the search finds it again


def _still_proves(fraud: Fraud, task: Task, stash: bytes) -> bool:
    """Return True if a stored proof is about a result that still counts."""
    if why_not(task, stash) is not None or task.state is not TaskState.SUBMITTED or fraud.place >= len(task.slots):
        return False
    result = task.slots[fraud.place].result
    is_in_own_leg = fraud.proof.index in own_segments(task)
    return result is not None and is_in_own_leg and has_form(result.root, task.order.segments, fraud.proof)


def _fraud_file(path: Path, task_id: bytes) -> Path:
    return path / f"proof-{task_id.hex()}"


async def search(
    parts: Parts[TaskPort],
    base_path: Path,
    task_id: bytes,
    report_step: Callable[[Step], None],
    looks: AsyncIterator[object],
) -> Fraud | None:
    """Compute a task's run in folder `base_path` once it has a provider, and compare once there is a result.

    Return None if every stated state is right. `looks` yields once for each block. Raise CannotProveError, or the
    errors of `prepared_run`.
    """
    right: Sequence[bytes] = ()
    milestones_behind = -1
    async for _ in looks:
        task = (await parts.chain.tasks([task_id], final=True)).get(task_id)
        reason_against = why_not(task, parts.identity.stash)
        if task is None or reason_against is not None:
            raise CannotProveError(f"nothing can be proved about this task: {reason_against}", code="nothing_to_prove")
        if task.state in BEFORE:
            report_step(Step("another worker of this provider"))
            continue
        # A new leg begins with another checkpoint, so its states are computed from there.
        if task.behind != milestones_behind:
            right, milestones_behind = (
                await _computed_digests(parts, base_path, task_id, task, report_step),
                task.behind,
            )
            continue  # the computation took time, so the task is read again
        if task.state is TaskState.SUBMITTED:
            return await compared(parts, task, right)
        report_step(Step("its result", len(right) - 1, task.order.segments))
    raise CannotProveError("the node serves no more blocks", code="no_more_blocks")


async def compared(parts: Parts[TaskPort], task: Task, right: Sequence[bytes]) -> Fraud | None:
    """Return the first wrong segment of the stated traces, by the right hashes."""
    right_root, order = trace_root(right), task.order
    for place, accused_slot in enumerate(task.slots):
        result = accused_slot.result
        if result is None or result.root == right_root:
            continue
        milestone = Milestone(order.milestones, result.root, 0, result.blob)
        found_run = (await fetch_run(parts, task, milestone, [accused_slot.provider])).digests
        own_leg = own_segments(task)
        wrong_segment = next(
            (wrong_segment for wrong_segment in own_leg if found_run[wrong_segment + 1] != right[wrong_segment + 1]),
            None,
        )
        continues_checkpoint = not task.behind or found_run[: own_leg.start + 1] == right[: own_leg.start + 1]
        # A proof compares two neighbouring states, of which the first must be right.
        if wrong_segment is None or not continues_checkpoint:
            raise CannotProveError(
                f"slot {place} is wrong outside of its own segments, which a proof must be about; its customer may "
                "dispute the result",
                code="outside_own_segments",
            )
        return Fraud(
            place,
            proof_of_fraud(found_run, wrong_segment, right[wrong_segment + 1]),
            claim_bond(task),
            reward_of(task, accused_slot),
        )
    return None


async def _computed_digests(
    parts: Parts[TaskPort], base_path: Path, task_id: bytes, task: Task, report_step: Callable[[Step], None]
) -> tuple[bytes, ...]:
    """Return the hashes of all states, from the start of the run or from the checkpoint of the task's leg."""
    task_run = await prepared_run(parts, base_path, task_id, task, None)
    while not task_run.is_whole:
        report_step(Step("", task_run.index, task.order.segments))
        await task_run.compute_next()
    return tuple(task_run.digests)
