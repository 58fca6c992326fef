"""Which backend a name means, where there are three kinds: NumPy, the reference, and PyTorch for whoever has it."""

from collections.abc import Callable
from typing import Any, TypeVar

Backend = TypeVar("Backend")
ByDevice = Callable[[str], Backend]


def usable_device(name: str) -> Any:
    """The torch device of this name, on which something was computed; LookupError says why that cannot be."""
    import torch  # noqa: PLC0415  # optional

    try:
        device = torch.device(name)
        torch.zeros(1, dtype=torch.int64, device=device).cpu()
    # unknown, not built in, no driver, no such GPU
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise LookupError(f"PyTorch {torch.__version__} cannot use the device {name!r}: {reason}") from error
    if str(device) != name:  # a number over 127 wraps round, and is another device or the first
        raise LookupError(f"PyTorch {torch.__version__} cannot use the device {name!r}: it takes it for {device}")
    return device


def chosen(
    backend: str,
    numpy: Callable[[], Backend],
    reference: Callable[[], Backend],
    torch: Callable[[], ByDevice[Backend]],
) -> Backend:
    """The backend `numpy`, `reference`, or `torch-` with a device; `torch` imports what makes one for a device.

    LookupError for another name or device, ImportError without PyTorch.
    """
    if backend == "numpy":
        return numpy()
    if backend == "reference":
        return reference()
    if not backend.startswith("torch-"):
        raise LookupError(f"no backend {backend!r}; there are numpy, reference, torch-<device>")
    try:
        on_device = torch()
    except ImportError as error:
        raise ImportError(f"the backend {backend} needs PyTorch, which does not load here: {error}") from error
    return on_device(backend.removeprefix("torch-"))
