"""The time of a token on a GPU: the number of its kernels, their time, and the wall time."""

import time

import numpy as np
import torch

from benchmarks.figures import Figures
from benchmarks.gpu.exactness import wrong_products
from gpu_tasks.workloads.textgen_int8.backends import arithmetic
from gpu_tasks.workloads.textgen_int8.conformance import check_operations
from gpu_tasks.workloads.textgen_int8.model import decode_model
from gpu_tasks.workloads.textgen_int8.request import model_file
from gpu_tasks.workloads.textgen_int8.transformer import Cache, Loaded, empty_cache, forward, load
from gpu_tasks.workloads.workload import NonConformingBackendError

TOKENS = 64
_TOKEN = np.array([[65]], dtype=np.int64)
Profiler = torch.profiler.profile


def launches(backend: str) -> Figures:
    """Return per token the kernels, their microseconds and the wall microseconds, after a warm-up."""
    model = load(arithmetic(backend), decode_model(model_file()))
    _decode(model, empty_cache(model))
    wall = _decode(model, empty_cache(model))
    with Profiler(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        _decode(model, empty_cache(model))
    kernels = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    busy = sum(event.time_range.elapsed_us() for event in kernels)
    return {
        "kernels_per_token": round(len(kernels) / TOKENS, 1),
        "kernel_us_per_token": round(busy / TOKENS, 1),
        "wall_us_per_token": round(1e6 * wall / TOKENS, 1),
    }


def _decode(model: Loaded, cache: Cache) -> float:
    """Return the seconds of `TOKENS` tokens. Each ends with its logits on the CPU, so no work is left on the device."""
    began = time.perf_counter()
    for _ in range(TOKENS):
        forward(model, _TOKEN, cache)
    return time.perf_counter() - began


def with_tf32(backend: str) -> tuple[bool, bool]:
    """Return whether TF32 changes products here, and whether the conformance vectors detect it.

    A library loaded after this package can switch TF32 on.
    """
    use = arithmetic(backend)
    torch.set_float32_matmul_precision("high")
    changed = bool(list(wrong_products(use)))
    try:
        check_operations(use)
    except NonConformingBackendError:
        return changed, True
    finally:
        torch.set_float32_matmul_precision("highest")
    return changed, False
