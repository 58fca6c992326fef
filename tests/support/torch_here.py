"""Skips tests on machines without PyTorch or its device."""

import pytest


def skip_without(backend: str) -> None:
    """Skip the test if the backend needs PyTorch or a CUDA device that is missing."""
    if not backend.startswith("torch-"):
        return
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if backend.startswith("torch-cuda") and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
