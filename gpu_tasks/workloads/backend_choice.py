"""Which backend a name means, where there are three kinds: NumPy, the reference, and PyTorch for whoever has it."""

from collections.abc import Callable
from typing import TypeVar

Backend = TypeVar("Backend")
ByDevice = Callable[[str], Backend]


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
