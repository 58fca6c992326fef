"""Backends by name, for computations with three kinds: NumPy, the reference, and PyTorch where it is installed."""

from collections.abc import Callable
from typing import Any, TypeVar

Backend = TypeVar("Backend")
ByDevice = Callable[[str], Backend]


def usable_device(name: str) -> Any:
    """Return the torch device of this name, after a computation on it. Raise LookupError if it cannot be used."""
    import torch  # noqa: PLC0415  # optional

    try:
        device = torch.device(name)
        torch.zeros(1, dtype=torch.int64, device=device).cpu()
    # PyTorch reports an unknown name, a missing backend, a missing driver or GPU by different exceptions
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise LookupError(f"PyTorch {torch.__version__} cannot use the device {name!r}: {reason}") from error
    if str(device) != name:  # PyTorch wraps a device number above 127 round, to another device or to the first
        raise LookupError(f"PyTorch {torch.__version__} cannot use the device {name!r}: it uses {device} instead")
    return device


class UnknownBackendError(LookupError):
    """A workload has no backend of this name."""


def chosen(
    backend_name: str,
    numpy: Callable[[], Backend],
    reference: Callable[[], Backend],
    torch: Callable[[], ByDevice[Backend]],
) -> Backend:
    """Return the backend `numpy`, `reference`, or `torch-` with a device.

    `torch` imports the factory that makes a backend for a device. Raise LookupError for another name or an unusable
    device, and ImportError without PyTorch.
    """
    if backend_name == "numpy":
        return numpy()
    if backend_name == "reference":
        return reference()
    if not backend_name.startswith("torch-"):
        raise UnknownBackendError(f"no backend {backend_name!r}; there are numpy, reference, torch-<device>")
    # The import runs only here, so that machines without PyTorch can use the other backends.
    try:
        on_device = torch()
    except ImportError as error:
        raise ImportError(f"the backend {backend_name} needs PyTorch, which cannot be loaded here: {error}") from error
    return on_device(backend_name.removeprefix("torch-"))
