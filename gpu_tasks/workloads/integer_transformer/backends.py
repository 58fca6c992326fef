"""The backends of integer transformers, by name."""

from collections.abc import Callable

from gpu_tasks.workloads.backend_choice import ByDevice, chosen
from gpu_tasks.workloads.integer_transformer.arithmetic import PlainBackend, TransformerBackend
from gpu_tasks.workloads.integer_transformer.numpy_backend import FloatBackend

NUMPY: Callable[[], TransformerBackend] = FloatBackend


def arithmetic(backend_name: str) -> TransformerBackend:
    """Return the backend `numpy`, `reference`, or `torch-` with a device.

    Raise LookupError for another name or an unusable device, and ImportError without PyTorch.
    """
    return chosen(backend_name, NUMPY, PlainBackend, _torch)


def _torch() -> ByDevice[TransformerBackend]:
    from gpu_tasks.workloads.integer_transformer.torch_backend import TorchFloatBackend  # noqa: PLC0415 (optional)

    return TorchFloatBackend
