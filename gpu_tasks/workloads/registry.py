"""Which workloads and backends there are, and the one way to open one: conforming or not at all."""

from importlib.resources import files

from gpu_tasks.workloads.textgen_int8.integer_ops import Arithmetic, Reference
from gpu_tasks.workloads.textgen_int8.numpy_backend import NumpyBackend
from gpu_tasks.workloads.textgen_int8.service import TextGeneration
from gpu_tasks.workloads.workload import Workload

WORKLOADS = ("textgen-int8",)


def open_workload(name: str, backend: str = "numpy") -> Workload:
    """The workload `name` with its published model, after its conformance vectors passed.

    `backend` is `numpy`, `reference`, or `torch-` with a device (`torch-cpu`, `torch-cuda:0`).
    LookupError for an unknown name, ImportError without PyTorch, NonConformingBackendError
    if this machine gives other results than the published ones.
    """
    if name not in WORKLOADS:
        raise LookupError(f"no workload {name!r}; there are {', '.join(WORKLOADS)}")
    workload = TextGeneration(arithmetic(backend), model_file(name))
    workload.conformance()
    return workload


def model_file(name: str) -> bytes:
    """The published model of the workload `name`, as it lies in the package."""
    folder = f"gpu_tasks.workloads.{name.replace('-', '_')}"
    return files(folder).joinpath("model.bin").read_bytes()


def arithmetic(backend: str) -> Arithmetic:
    """The backend of that name; see `open_workload`."""
    if backend == "numpy":
        return NumpyBackend()
    if backend == "reference":
        return Reference()
    if backend.startswith("torch-"):
        from gpu_tasks.workloads.textgen_int8.torch_backend import TorchBackend  # noqa: PLC0415 (PyTorch is optional)

        return TorchBackend(backend.removeprefix("torch-"))
    raise LookupError(f"no backend {backend!r}; there are numpy, reference, torch-<device>")
