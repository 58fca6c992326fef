"""Attestations of the steps of tasks: their conditions, in order, and their effect.

`problem` decides for authors and importers. `running` decides about the stated step itself, as for the calls.
`lasting_problem` decides for a node that keeps an attestation. It asks less, because the step before may not be in a
block yet.

Invariant: key, device and signature are checked before the task's record, which is the longest of all records. A
stranger's invention costs a few short reads. It costs a signature check only if it names a key and a device that work
on the task.
"""

from gpu_tasks.market.attestations.attestations import TaskAttested
from gpu_tasks.market.attestations.kinds import BAD_SIGNATURE, attestation_hash
from gpu_tasks.market.training.life import running
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.task_statement import (
    RESULT_STEP,
    TASK_VERSION,
    SignedTaskAttestation,
    StatedMilestone,
    TaskAttestation,
    heights_problem,
    step_of,
    task_signing_payload,
)
from gpu_tasks.market.training.tasks import Slot, Task, TaskState
from runtime.cryptography.signatures import verify_ed25519
from runtime.frame.errors import DispatchError

AHEAD_MAX = 2
"""The most milestones ahead of the slot's last one that a node keeps: the next one, and the one after it."""
NO_SLOT = "no such slot"
"""The problem of a statement about no slot of an open auction."""
NOT_SLOT_OWNER = "not the slot's key or device"
"""The problem of a statement by another key or device than the slot's."""


def problem(market: TrainingStorage, signed: SignedTaskAttestation) -> str:
    """Return the reason why this attestation may not be attached now, or "" if it may."""
    statement = signed.statement
    unsigned = _signing_problem(market, signed)
    if unsigned:
        return unsigned
    task = market.tasks[statement.task]
    slot = _slot_of(task, statement)
    if task is None or slot is None:
        return NO_SLOT
    if slot.device != statement.device:
        return NOT_SLOT_OWNER
    try:
        if isinstance(statement.stated, StatedMilestone):
            running.ensure_may_report(market, task, slot, statement.stated.milestone)
        else:
            running.ensure_may_finish(market, task, slot)
    except DispatchError as call_error:
        return f"not now: {type(call_error).__name__}"
    return heights_problem(statement, slot_started_at=slot.started_at, height=market.height)


def lasting_problem(market: TrainingStorage, signed: SignedTaskAttestation) -> str:
    """Return the reason why this branch will not take this attestation now or soon, or "" if it may."""
    return _signing_problem(market, signed) or record_problem(market.tasks[signed.statement.task], signed.statement)


def record_problem(task: Task | None, statement: TaskAttestation) -> str:
    """Return the reason against a statement by the task's record alone, for any signer, or "" if there is none."""
    slot = _slot_of(task, statement)
    if task is None or slot is None or task.state not in (TaskState.STARTING, TaskState.RUNNING):
        return NO_SLOT
    if slot.device != statement.device:
        return NOT_SLOT_OWNER
    attested_step, newest_stated, last_step = (
        step_of(statement.stated),
        task.behind + slot.reported,
        task.behind + task.milestones,
    )
    if slot.result is not None or attested_step <= newest_stated:
        return "stated already"
    if attested_step == RESULT_STEP:
        return ""
    if attested_step >= last_step:
        return "no such milestone"
    return "" if attested_step <= newest_stated + AHEAD_MAX else "too far ahead"


def attach(market: TrainingStorage, signed: SignedTaskAttestation) -> None:
    """Record the statement of an admissible attestation."""
    statement = signed.statement
    task = market.open_task(statement.task)
    provider = task.slots[statement.place].provider
    market.emit(TaskAttested(statement.task, statement.place, provider, statement.device, attestation_hash(signed)))
    if isinstance(statement.stated, StatedMilestone):
        running.report(market, statement.task, task, statement.place, statement.stated.milestone)
    else:
        running.take_result(market, statement.task, task, statement.place, statement.stated.result)


def _signing_problem(market: TrainingStorage, signed: SignedTaskAttestation) -> str:
    """Return the problem of key, device and signature, or "" if they belong to a provider that works on the task."""
    statement = signed.statement
    if statement.version != TASK_VERSION:
        return "another version"
    # Another provider could sign a statement of its own, and take the right one's place in the pool.
    key_owner = market.stake.stash_of(statement.provider_key)
    record = market.devices.devices[statement.device]
    if key_owner is None or record is None or (record.owner, record.assignment) != (key_owner, statement.task):
        return NOT_SLOT_OWNER
    # With this chain's genesis hash: a statement of another chain with the same task proves nothing here.
    signing_payload = task_signing_payload(market.system.block_hash[0], statement)
    return (
        # Without the check, anyone could state a wrong result for a provider, and burn its collateral.
        "" if verify_ed25519(statement.provider_key, signing_payload, signed.signature) else BAD_SIGNATURE
    )


def _slot_of(task: Task | None, statement: TaskAttestation) -> Slot | None:
    """Return the slot of the stated place, if the statement names the current auction, else None."""
    if task is None or task.auction != statement.auction or statement.place >= len(task.slots):
        return None
    return task.slots[statement.place]
