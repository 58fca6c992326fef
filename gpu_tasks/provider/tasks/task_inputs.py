"""The request of a task: opened, and checked against the chain's data.

Invariant: bidders, winners, standbys, checkers and voters refuse the same inputs, before any promise.
"""

from __future__ import annotations

from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.orders import TaskOrder, runs_program
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.provider.blobs.inputs import SealedInput, UnusableInputError
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.execution.workloads import UnknownWorkloadError
from gpu_tasks.provider.programs.means import CONTAINER_KIND
from gpu_tasks.tasks.canonical import CanonicalTask, task_hash_of
from gpu_tasks.workloads.form import WorkloadForm
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError


def form_of(parts: Parts[object], order: TaskOrder) -> WorkloadForm:
    """Return a task's workload. Raise ExecutionError if this daemon does not have it."""
    try:
        return parts.workers.workloads.in_steps(order.workload)
    except UnknownWorkloadError as error:
        raise ExecutionError(str(error), code=error.code) from None


def name_of(parts: Parts[object], order: TaskOrder) -> str:
    """Return a readable name of a task's computation."""
    if runs_program(order):
        return CONTAINER_KIND
    try:
        return form_of(parts, order).name
    except ExecutionError:
        return f"0x{order.workload.hex()[:8]}.."


async def open_task(parts: Parts[object], form: WorkloadForm, task: Task) -> UnitInput:
    """Return the request of a task. Raise UnusableInputError, BlobError or ChainError, as `Inputs.open` does."""
    order = task.order
    input_keepers = tuple(slot.provider for slot in task.slots)
    sealed_input = SealedInput(order.input_blob, order.input_root, order.sealed_at, input_keepers)
    opened = await parts.inputs.open_sealed(sealed_input)
    check_request(form, order, opened.request)
    return opened


def check_request(form: WorkloadForm, order: TaskOrder, encoded_request: bytes) -> None:
    """Raise UnusableInputError for an invalid request, or for one that does not match the order's hash."""
    try:
        segments, cost_asked = form.segments(encoded_request), form.cost_asked(encoded_request)
    except DecodeError as error:
        raise UnusableInputError(str(error), code="invalid_request") from None
    # Checked before the hash for a clear reason. The hash would fail as well.
    if segments != order.segments:
        raise UnusableInputError(
            f"its request has {segments} segments, and its order {order.segments}", code="segments_differ"
        )
    canonical = CanonicalTask(
        workload=form.workload_id,
        model=form.model_id,
        request=blake2_256(encoded_request),
        request_bytes=len(encoded_request),
        cost=cost_asked,
        milestones=order.milestones,
        slots=order.slots,
        classes=tuple(device_class for device_class in DeviceClass if order.classes >> device_class & 1),
    )
    # The hash on the chain binds the sealed request to the task that providers bid for.
    if task_hash_of(canonical) != order.task_hash:
        raise UnusableInputError("its request does not match its hash", code="other_hash")
