"""The start of this package's workers: the backend for each hardware, and the visible GPU."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec

from gpu_tasks.models.model_store import FOLDER_VARIABLE, default_folder
from gpu_tasks.provider.execution.bench import MakeExecutor
from gpu_tasks.provider.execution.executor import ExecutionError, WorkerExecutor
from gpu_tasks.provider.execution.free_memory import free_bytes
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.limits import MIB, Limits, limits_for
from gpu_tasks.provider.execution.live import LiveHost
from gpu_tasks.provider.execution.sandbox import Sandbox
from gpu_tasks.workloads.form import WorkloadForm

MakeLiveHost = Callable[[Hardware, WorkloadForm, int], LiveHost]
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


def worker_command(workload: str, backend_name: str, limits: Limits, live_places: int | None = None) -> list[str]:
    """Return the command of this package's worker, with its arguments. With `live_places`, it streams its answers."""
    module_arguments = ["-m", "gpu_tasks.provider.execution.worker", "--workload", workload, "--backend", backend_name]
    # -s: packages in the user's home are not part of this installation. -P: nor are files of the present folder.
    live = [] if live_places is None else ["--live", str(live_places)]
    return [sys.executable, "-sP", *module_arguments, "--limits", json.dumps(asdict(limits)), *live]


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


@dataclass(frozen=True, slots=True)
class _Start:
    """The start of a worker: its command, limits and environment."""

    command: list[str]
    limits: Limits
    environment: dict[str, str]


def _start_of(
    backend_name: str, sandbox: Sandbox | None, hardware: Hardware, form: WorkloadForm, live_places: int | None = None
) -> _Start:
    """Return the start of a worker with the operator's backend, inside the sandbox if there is one."""
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
    command_words = worker_command(name, chosen_name, limits, live_places)
    if sandbox is not None:
        command_words = sandbox.around(command_words, with_gpu=with_gpu)
    return _Start(command_words, limits, environment)


def workers_with(backend_name: str, sandbox: Sandbox | None = None) -> MakeExecutor:
    """Return a factory of workers with the operator's backend, inside the sandbox if there is one."""

    def make(hardware: Hardware, form: WorkloadForm) -> WorkerExecutor:
        start = _start_of(backend_name, sandbox, hardware, form)
        return WorkerExecutor(start.command, start.limits, start.environment, form)

    return make


def live_hosts_with(backend_name: str, sandbox: Sandbox | None = None) -> MakeLiveHost:
    """Return a factory of hosts of live workers, as `workers_with`. It takes the number of places too."""

    def make(hardware: Hardware, form: WorkloadForm, places: int) -> LiveHost:
        start = _start_of(backend_name, sandbox, hardware, form, places)
        return LiveHost(start.command, start.limits, places, start.environment)

    return make
