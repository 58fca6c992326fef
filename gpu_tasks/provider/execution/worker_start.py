"""How a worker of this package is started: which backend computes on which hardware, and which GPU it sees."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.util import find_spec

from gpu_tasks.provider.execution.bench import MakeExecutor
from gpu_tasks.provider.execution.executor import WorkerExecutor
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.limits import Limits, limits_for
from gpu_tasks.provider.execution.sandbox import Sandbox
from gpu_tasks.workloads.form import WorkloadForm

NUMPY = "numpy"
CUDA = "torch-cuda"
"""The device's own GPU: its worker sees no other, and counts it as number 0."""


def has_torch() -> bool:
    """Tell whether PyTorch is installed, without the seconds that an import takes."""
    return find_spec("torch") is not None


def backends_here() -> tuple[str, ...]:
    """Return the backends that the operator may choose here."""
    return (NUMPY, "reference", *(("torch-cpu", CUDA) if has_torch() else ()))


def chosen_backend(wish: str | None, hardware: Iterable[Hardware]) -> str:
    """Return the operator's backend; without a wish PyTorch on GPUs where it is installed, and NumPy elsewhere."""
    if wish is not None:
        return wish
    return CUDA if has_torch() and any(piece.index is not None for piece in hardware) else NUMPY


def idle_gpus(backend: str, hardware: Iterable[Hardware]) -> list[Hardware]:
    """Return the GPUs that would do nothing, since this backend computes on the processor."""
    return [] if backend.startswith(CUDA) else [piece for piece in hardware if piece.index is not None]


def worker_command(workload: str, backend: str, limits: Limits) -> list[str]:
    """The program of this package's worker, and its arguments."""
    module = ["-m", "gpu_tasks.provider.execution.worker", "--workload", workload, "--backend", backend]
    return [sys.executable, "-s", *module, "--limits", json.dumps(asdict(limits))]


def backend_for(backend: str, hardware: Hardware, form: WorkloadForm) -> str:
    """What computes a workload on this hardware when the operator asked for `backend`: CUDA there where a GPU is."""
    # A judge is drawn for whatever workload there is: one without this kind of backend is computed in NumPy.
    if not is_known(backend, [form]):
        return NUMPY
    if not backend.startswith(CUDA):
        return backend
    return NUMPY if hardware.index is None else f"{CUDA}:0"


def is_known(backend: str, forms: Iterable[WorkloadForm]) -> bool:
    """Whether any of the workloads has a backend of this kind."""
    return any(backend.partition("-")[0] in form.backends for form in forms)


def is_possible(backend: str, hardware: Sequence[Hardware]) -> bool:
    """Whether any of this hardware is what the backend needs."""
    return not backend.startswith(CUDA) or any(device.index is not None for device in hardware)


def workers_with(backend: str, sandbox: Sandbox | None = None) -> MakeExecutor:
    """Workers that compute with the backend that the operator chose, within walls where there are some."""

    def make(hardware: Hardware, form: WorkloadForm) -> WorkerExecutor:
        chosen = backend_for(backend, hardware, form)
        limits = limits_for(chosen)
        # CUDA counts GPUs in an order of its own; the identifier says which one is meant.
        with_gpu = chosen.startswith(CUDA)
        seen = {"CUDA_VISIBLE_DEVICES": hardware.uuid} if with_gpu else {}
        command = worker_command(form.name, chosen, limits)
        if sandbox is not None:
            command = sandbox.around(command, with_gpu=with_gpu)
        return WorkerExecutor(command, limits, seen)

    return make
