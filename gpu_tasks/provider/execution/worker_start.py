"""The start of this package's workers: the backend for each hardware, and the visible GPU."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.util import find_spec

from gpu_tasks.models.model_store import FOLDER_VARIABLE, default_folder
from gpu_tasks.provider.execution.bench import MakeExecutor
from gpu_tasks.provider.execution.executor import ExecutionError, WorkerExecutor
from gpu_tasks.provider.execution.free_memory import free_bytes
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.limits import MIB, Limits, limits_for
from gpu_tasks.provider.execution.sandbox import Sandbox
from gpu_tasks.workloads.form import WorkloadForm

NUMPY = "numpy"
FREE_PERCENT = 90
"""The part of the free memory for a worker: libraries and other programs take some too."""
CUDA = "torch-cuda"
"""The backend for the device's own GPU. Its worker sees no other and counts it as number 0."""


def has_torch() -> bool:
    """Return True if PyTorch is installed, without the seconds that an import takes."""
    return find_spec("torch") is not None


def backends_here() -> tuple[str, ...]:
    """Return the backends that the operator may choose here."""
    return (NUMPY, "reference", *(("torch-cpu", CUDA) if has_torch() else ()))


def chosen_backend(wished_backend: str | None, hardware: Iterable[Hardware]) -> str:
    """Return the operator's backend. The default is PyTorch on GPUs if it is installed, and NumPy elsewhere."""
    if wished_backend is not None:
        return wished_backend
    return CUDA if has_torch() and any(piece.index is not None for piece in hardware) else NUMPY


def idle_gpus(backend_name: str, hardware: Iterable[Hardware]) -> list[Hardware]:
    """Return the GPUs that would be idle because this backend computes on the processor."""
    return [] if backend_name.startswith(CUDA) else [piece for piece in hardware if piece.index is not None]


def worker_command(workload: str, backend_name: str, limits: Limits) -> list[str]:
    """Return the command of this package's worker, with its arguments."""
    module_arguments = ["-m", "gpu_tasks.provider.execution.worker", "--workload", workload, "--backend", backend_name]
    # -s: packages in the user's home are not part of this installation. -P: nor are files of the present folder.
    return [sys.executable, "-sP", *module_arguments, "--limits", json.dumps(asdict(limits))]


def backend_for(backend_name: str, hardware: Hardware, form: WorkloadForm) -> str:
    """Return the backend for a workload on this hardware, given the operator's choice."""
    # A checker may be drawn for any workload, so NumPy computes a workload that lacks this kind of backend.
    if not is_known(backend_name, [form]):
        return NUMPY
    if not backend_name.startswith(CUDA):
        return backend_name
    return NUMPY if hardware.index is None else f"{CUDA}:0"


def is_known(backend_name: str, forms: Iterable[WorkloadForm]) -> bool:
    """Return True if any of the workloads has a backend of this kind."""
    return any(backend_name.partition("-")[0] in form.backends for form in forms)


def is_possible(backend_name: str, hardware: Sequence[Hardware]) -> bool:
    """Return True if any of this hardware can run the backend."""
    return not backend_name.startswith(CUDA) or any(device.index is not None for device in hardware)


def room_for(form: WorkloadForm, free: int) -> int:
    """Return the memory for requests side by side, beside the model, on a machine with `free` bytes.

    Raise ExecutionError if not even the model fits. 0 free bytes mean that the machine does not report them.
    """
    wanted = form.room_bytes()
    if not wanted or not free:
        return wanted
    room = free * FREE_PERCENT // 100 - form.memory_bytes()
    if room < MIB:
        raise ExecutionError(
            f"{form.name} needs {form.memory_bytes() // MIB:,} MiB for its model, and {free // MIB:,} MiB are free; "
            "end other programs, or withdraw the offer",
            code="memory_too_small",
        )
    return min(wanted, room)


def workers_with(backend_name: str, sandbox: Sandbox | None = None) -> MakeExecutor:
    """Return a factory of workers with the operator's backend, inside the sandbox if there is one."""

    def make(hardware: Hardware, form: WorkloadForm) -> WorkerExecutor:
        chosen_name = backend_for(backend_name, hardware, form)
        limits = limits_for(chosen_name, form.memory_bytes(), room_for(form, free_bytes(hardware)))
        # CUDA may order GPUs differently, so the identifier selects the GPU.
        with_gpu = chosen_name.startswith(CUDA)
        environment = {FOLDER_VARIABLE: str(default_folder())}
        if with_gpu:
            environment["CUDA_VISIBLE_DEVICES"] = hardware.uuid
        # By its id: a user may have several models of one name.
        workload, has_model, _ = form.name.partition(":")
        name = f"{workload}:{form.model_id.hex()}" if has_model else workload
        command_words = worker_command(name, chosen_name, limits)
        if sandbox is not None:
            command_words = sandbox.around(command_words, with_gpu=with_gpu)
        return WorkerExecutor(command_words, limits, environment, form)

    return make
