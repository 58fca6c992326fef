"""The time of a token on a GPU: the number of its kernels, their time, and the wall time."""

import time

import numpy as np
import torch

from benchmarks.built_in import loaded_on
from benchmarks.figures import Figures
from benchmarks.gpu.exactness import logits
from gpu_tasks.workloads.decoder_int8.transformer import LoadedDecoder
from gpu_tasks.workloads.integer_transformer.backends import arithmetic

TOKENS = 64
_TEXT = np.full((1, TOKENS), 65, dtype=np.int64)
Profiler = torch.profiler.profile


def launches(backend: str) -> Figures:
    """Return per token the kernels, their microseconds and the wall microseconds, after a warm-up."""
    model = loaded_on(arithmetic(backend))
    _decode(model)
    wall = _decode(model)
    with Profiler(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        _decode(model)
    kernels = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    busy = sum(event.time_range.elapsed_us() for event in kernels)
    return {
        "kernels_per_token": round(len(kernels) / TOKENS, 1),
        "kernel_us_per_token": round(busy / TOKENS, 1),
        "wall_us_per_token": round(1e6 * wall / TOKENS, 1),
    }


def _decode(model: LoadedDecoder) -> float:
    """Return the seconds of `TOKENS` tokens. The logits end on the CPU, so no work is left on the device."""
    began = time.perf_counter()
    logits(model, _TEXT, 1)
    return time.perf_counter() - began
