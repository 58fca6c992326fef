"""The device of PyTorch that the name of a backend means; loads PyTorch when it is asked."""

from typing import Any


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
