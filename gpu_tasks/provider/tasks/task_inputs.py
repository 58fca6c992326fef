"""The request of a task: opened, and checked against the chain's data.

Invariant: bidders, winners, standbys and judges refuse the same inputs, before any promise.
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


def form_of(parts: Parts[object], task_order: TaskOrder) -> WorkloadForm:
    """Return a task's workload. Raise ExecutionError if this daemon does not have it."""
    try:
        return parts.workers.workloads.in_steps(task_order.workload)
    except UnknownWorkloadError as error:
        raise ExecutionError(str(error), code=error.code) from None


def name_of(parts: Parts[object], task_order: TaskOrder) -> str:
    """Return a readable name of a task's computation."""
    if runs_program(task_order):
        return CONTAINER_KIND
    try:
        return form_of(parts, task_order).name
    except ExecutionError:
        return f"0x{task_order.workload.hex()[:8]}.."


async def open_task(parts: Parts[object], workload_form: WorkloadForm, task: Task) -> UnitInput:
    """Return the request of a task. Raise UnusableInputError, BlobError or ChainError, as `Inputs.open` does."""
    task_order = task.order
    input_keepers = tuple(task_slot.provider for task_slot in task.slots)
    sealed_input = SealedInput(task_order.input_blob, task_order.input_root, task_order.sealed_at, input_keepers)
    unit_input = await parts.inputs.open_sealed(sealed_input)
    check_request(workload_form, task_order, unit_input.request)
    return unit_input


def check_request(workload_form: WorkloadForm, task_order: TaskOrder, encoded_request: bytes) -> None:
    """Raise UnusableInputError for an invalid request, or for one that does not match the order's hash."""
    try:
        segments, cost_asked = workload_form.segments(encoded_request), workload_form.cost_asked(encoded_request)
    except DecodeError as error:
        raise UnusableInputError(str(error), code="invalid_request") from None
    # Checked before the hash for a clear reason. The hash would fail as well.
    if segments != task_order.segments:
        raise UnusableInputError(
            f"its request has {segments} segments, and its order {task_order.segments}", code="segments_differ"
        )
    canonical = CanonicalTask(
        workload=workload_form.workload_id,
        model=workload_form.model_id,
        request=blake2_256(encoded_request),
        request_bytes=len(encoded_request),
        cost=cost_asked,
        milestones=task_order.milestones,
        slots=task_order.slots,
        is_homogeneous=task_order.is_homogeneous,
        classes=tuple(device_class for device_class in DeviceClass if task_order.classes >> device_class & 1),
    )
    # The hash on the chain binds the sealed request to the task that providers bid for.
    if task_hash_of(canonical) != task_order.task_hash:
        raise UnusableInputError("its request does not match its hash", code="other_hash")
