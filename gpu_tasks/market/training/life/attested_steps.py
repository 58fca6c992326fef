"""Attestations of the steps of tasks: the conditions for one in their order, and what attaching it does.

`problem` decides for authors and importers; what may be stated, `running` decides for it as for the calls.
`lasting_problem` is what a node asks before it keeps one: less, since the step before may not be in a block yet.
Always: the signature is looked at before the task's record, which is the longest there is: what a stranger makes up
costs a few short records, and a signature only where it names a key and a device that work on the task.
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
"""Milestones of a slot that are kept before they are in a block: the next one, and one that comes with it."""
_NO_SLOT = "no such slot"
_NOT_ITS_OWN = "not the slot's key or device"


def problem(market: TrainingStorage, signed: SignedTaskAttestation) -> str:
    """Why this attestation may not be attached now; empty if it may."""
    statement = signed.statement
    unsigned = _signing_problem(market, signed)
    if unsigned:
        return unsigned
    task = market.tasks[statement.task]
    slot = _slot_of(task, statement)
    if task is None or slot is None:
        return _NO_SLOT
    if slot.device != statement.device:
        return _NOT_ITS_OWN
    try:
        if isinstance(statement.stated, StatedMilestone):
            running.ensure_may_report(market, task, slot, statement.stated.milestone)
        else:
            running.ensure_may_finish(market, task, slot)
    except DispatchError as error:
        return f"not now: {type(error).__name__}"
    return heights_problem(statement, slot_started_at=slot.started_at, height=market.height)


def lasting_problem(market: TrainingStorage, signed: SignedTaskAttestation) -> str:
    """Why this attestation cannot be attached on this branch, now or soon; empty if it can."""
    return _signing_problem(market, signed) or record_problem(market.tasks[signed.statement.task], signed.statement)


def record_problem(task: Task | None, statement: TaskAttestation) -> str:
    """What of that a task's record says, whoever has signed."""
    slot = _slot_of(task, statement)
    if task is None or slot is None or task.state not in (TaskState.STARTING, TaskState.RUNNING):
        return _NO_SLOT
    if slot.device != statement.device:
        return _NOT_ITS_OWN
    step, stated, last = step_of(statement.stated), task.behind + slot.reported, task.behind + task.milestones
    if slot.result is not None or step <= stated:
        return "stated already"
    if step == RESULT_STEP:
        return ""
    if step >= last:
        return "no such milestone"
    return "" if step <= stated + AHEAD_MAX else "too far ahead"


def attach(market: TrainingStorage, signed: SignedTaskAttestation) -> None:
    """Write down what an admissible attestation states."""
    statement = signed.statement
    task = market.open_task(statement.task)
    provider = task.slots[statement.place].provider
    market.emit(TaskAttested(statement.task, statement.place, provider, statement.device, attestation_hash(signed)))
    if isinstance(statement.stated, StatedMilestone):
        running.report(market, statement.task, task, statement.place, statement.stated.milestone)
    else:
        running.take_result(market, statement.task, task, statement.place, statement.stated.result)


def _signing_problem(market: TrainingStorage, signed: SignedTaskAttestation) -> str:
    """What is wrong with key, device and signature; empty if they are those of somebody who works on the task."""
    statement = signed.statement
    if statement.version != TASK_VERSION:
        return "another version"
    owner = market.stake.stash_of(statement.provider_key)
    device = market.devices.devices[statement.device]
    if owner is None or device is None or (device.owner, device.assignment) != (owner, statement.task):
        return _NOT_ITS_OWN
    payload = task_signing_payload(market.system.block_hash[0], statement)
    return "" if verify_ed25519(statement.provider_key, payload, signed.signature) else BAD_SIGNATURE


def _slot_of(task: Task | None, statement: TaskAttestation) -> Slot | None:
    """The slot that the statement names, of the auction that it names."""
    if task is None or task.auction != statement.auction or statement.place >= len(task.slots):
        return None
    return task.slots[statement.place]
