"""Whether a task's result follows from its input: the run computed again, and where a stated trace first goes wrong.

Always: what is accused is a segment of the leg that its provider ran, whose beginning is right: judges who compute it
find what was found here. Nobody answers for what another one computed before.
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
from wallet.errors import KeyFileError
from wallet.private_file import read_private, replace

KEPT_BYTES_MAX = 4_096
"""A proof has two paths of ten hashes each."""
COMPUTING = (TaskState.STARTING, TaskState.RUNNING, TaskState.SUBMITTED)
"""Who proves computes while the provider does: what is left after a result is short."""
BEFORE = (TaskState.COMMITTING, TaskState.REVEALING, TaskState.AWARDING, TaskState.ASKING)


class CannotProveError(Exception):
    """Nothing can be proved about a task now, or by this provider; the text says why."""


@struct
class Fraud:
    """A slot whose result is wrong, and the proof."""

    place: U8
    proof: TraceFraudProof
    bond: Balance
    """Grains that the claim locks, and a proof that is wrong costs."""
    reward: Balance
    """Grains that one that is right brings beside them."""

    def salt(self, identity: Identity, task_id: bytes) -> bytes:
        """The claim's chance: the same again after a crash, and known to who has the provider's key alone."""
        return blake2_256(identity.key.sign(domain(b"salt", identity.genesis, task_id + bytes((self.place,)))))

    def commitment(self, identity: Identity, task_id: bytes) -> bytes:
        """What is committed to."""
        salt = self.salt(identity, task_id)
        return claim_commitment(identity.genesis, task_id, identity.stash, self.place, self.proof, salt)


_FRAUD = codec(Fraud)


@dataclass(frozen=True, slots=True)
class Step:
    """Where a search is."""

    waits_for: str
    """What is awaited; empty while something is computed."""
    done: int = 0
    segments: int = 0


def why_not(task: Task | None, stash: bytes) -> str | None:
    """Why a provider cannot prove anything about a task, ever; None if it may."""
    if task is None:
        return "the chain knows no such task (it forgets a task some time after its end)"
    if not task.order.segments:
        return "it has no trace: its customer may dispute the result, and judges compute all of it"
    if task.customer == stash or any(slot.provider == stash for slot in task.slots):
        return "this provider has a part in it: the chain takes no proof from customer or provider"
    if task.accepted is not None:
        return "its customer has accepted the result"
    if task.state not in (*BEFORE, *COMPUTING):
        return f"it is {task.state.name.lower()}: a proof is taken while a result is submitted, and not before a court"
    return None


async def found_or_searched(
    parts: Parts[TaskPort],
    kept_in: Path,
    base: Path,
    task_id: bytes,
    tell: Callable[[Step], None],
    looks: AsyncIterator[object],
) -> Fraud | None:
    """What `search` finds, written down in `kept_in`: broken off between claim and proof, nothing is computed again.

    Whoever has to compute a run again is late: the claim's place, its bond and the time to prove are gone.
    """
    kept = _kept(kept_in, task_id)
    task = (await parts.chain.tasks([task_id], final=True)).get(task_id)
    if kept is not None and task is not None and _still_proves(kept, task, parts.identity.stash):
        return kept
    fraud = await search(parts, base, task_id, tell, looks)
    if fraud is not None:
        replace(_file(kept_in, task_id), _FRAUD.encode(fraud))
    return fraud


def forget(kept_in: Path, task_id: bytes) -> None:
    """The proof of a task was shown."""
    _file(kept_in, task_id).unlink(missing_ok=True)


def _kept(kept_in: Path, task_id: bytes) -> Fraud | None:
    try:
        return _FRAUD.decode(read_private(_file(kept_in, task_id), KEPT_BYTES_MAX))
    except (FileNotFoundError, KeyFileError, DecodeError):
        return None  # it is found again


def _still_proves(fraud: Fraud, task: Task, stash: bytes) -> bool:
    """Whether a proof that was found before is about a result that stands."""
    if why_not(task, stash) is not None or task.state is not TaskState.SUBMITTED or fraud.place >= len(task.slots):
        return False
    result = task.slots[fraud.place].result
    is_own = fraud.proof.index in own_segments(task)
    return result is not None and is_own and has_form(result.root, task.order.segments, fraud.proof)


def _file(kept_in: Path, task_id: bytes) -> Path:
    return kept_in / f"proof-{task_id.hex()}"


async def search(
    parts: Parts[TaskPort], base: Path, task_id: bytes, tell: Callable[[Step], None], looks: AsyncIterator[object]
) -> Fraud | None:
    """Compute a task's run in folder `base` as soon as it has a provider, and compare once there is a result.

    None: every stated state is right. `looks` gives something for each block. CannotProveError, and the errors of
    `prepared_run`.
    """
    right: Sequence[bytes] = ()
    behind = -1
    async for _ in looks:
        task = (await parts.chain.tasks([task_id], final=True)).get(task_id)
        reason = why_not(task, parts.identity.stash)
        if task is None or reason is not None:
            raise CannotProveError(f"nothing can be proved about this task: {reason}")
        if task.state in BEFORE:
            tell(Step("somebody who works for it"))
            continue
        if task.behind != behind:
            right, behind = await _computed(parts, base, task_id, task, tell), task.behind
            continue  # that took its time: the task is read anew
        if task.state is TaskState.SUBMITTED:
            return await compared(parts, task, right)
        tell(Step("its result", len(right) - 1, task.order.segments))
    raise CannotProveError("the node shows no more blocks")


async def compared(parts: Parts[TaskPort], task: Task, right: Sequence[bytes]) -> Fraud | None:
    """Where one of the stated traces first goes wrong, by the hashes that are right."""
    root, order = trace_root(right), task.order
    for place, slot in enumerate(task.slots):
        stated = slot.result
        if stated is None or stated.root == root:
            continue
        milestone = Milestone(order.milestones, stated.root, 0, stated.blob)
        found = (await fetch_run(parts, task, milestone, [slot.provider])).digests
        own = own_segments(task)
        index = next((index for index in own if found[index + 1] != right[index + 1]), None)
        goes_on = not task.behind or found[: own.start + 1] == right[: own.start + 1]
        if index is None or not goes_on:
            raise CannotProveError(
                f"what slot {place} states is wrong where no segment of its own is: a proof is about these; "
                "its customer may dispute the result"
            )
        return Fraud(place, proof_of_fraud(found, index, right[index + 1]), claim_bond(task), reward_of(task, slot))
    return None


async def _computed(
    parts: Parts[TaskPort], base: Path, task_id: bytes, task: Task, tell: Callable[[Step], None]
) -> tuple[bytes, ...]:
    """The hashes of all states, from the beginning, or from the checkpoint that the task's leg begins with."""
    run = await prepared_run(parts, base, task_id, task, None)
    while not run.is_whole:
        tell(Step("", run.index, task.order.segments))
        await run.compute_next()
    return tuple(run.digests)
