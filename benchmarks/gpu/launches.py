"""Where the time of a token goes on a GPU: how many kernels it starts, how long they compute, how long it takes."""

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
    """Per token, after a warm-up of as many: kernels, microseconds that they compute, microseconds on the clock."""
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
    """Seconds of `TOKENS` tokens; each ends with its logits on the CPU, so nothing is left under way."""
    began = time.perf_counter()
    for _ in range(TOKENS):
        forward(model, _TOKEN, cache)
    return time.perf_counter() - began


def with_tf32(backend: str) -> tuple[bool, bool]:
    """Whether TF32, switched on by some library after us, changes products here; and whether the vectors see it."""
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
