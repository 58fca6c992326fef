"""The gain of units with many requests: the built-in model over the same requests, cut into batches of each size.

    Run: OPENBLAS_NUM_THREADS=1 python -m benchmarks text_batches    about 30 seconds

BACKEND=torch-cpu chooses another backend. Lengths and temperatures are mixed, as from real customers. Texts end at
different times, and their lanes are filled again. A batch of one is a request alone. Times are process time, or wall
time on a GPU. Figures are medians of alternating rounds.
"""

import os
import random
import time
from collections.abc import Callable

from benchmarks.built_in import WORKLOAD, text_request, tokens_of
from benchmarks.figures import Figures, median_figures
from gpu_tasks.workloads.model_forms import open_workload
from gpu_tasks.workloads.workload import Workload

REQUESTS, ROUNDS = 128, 3
BATCHES = (1, 8, 32, 128)
SEED = 2027
TEXT = b"Whenever I find myself growing grim about the mouth, I account it high time"


def measure() -> Figures:
    """Return the tokens per second by batch size, and the largest batch's rate over that of single requests."""
    backend = os.environ.get("BACKEND", "numpy")
    workload = open_workload(WORKLOAD, backend)
    clock = time.perf_counter if "cuda" in backend else time.process_time
    asked = mixed_requests(REQUESTS)
    found = median_figures(
        [{_name(size): rate(workload, clock, asked, size) for size in BATCHES} for _ in range(ROUNDS)]
    )
    return {**found, "batch_over_one_by_one": found[_name(BATCHES[-1])] / found[_name(BATCHES[0])]}


def rate(workload: Workload, clock: Callable[[], float], asked: list[bytes], size: int) -> float:
    """Return the tokens per second of the requests, cut into batches of `size`."""
    began, tokens = clock(), 0
    for start in range(0, len(asked), size):
        tokens += sum(tokens_of(output) for _, output in workload.run_many(asked[start : start + size]))
    return tokens / (clock() - began)


def mixed_requests(count: int) -> list[bytes]:
    """Return requests with prompts of 1 to 64 bytes and 8 to 40 tokens. One in four is greedy."""
    draw = random.Random(SEED)
    return [
        text_request(TEXT[: draw.randint(1, 64)], draw.randint(8, 40), draw.choice((0, 500, 800, 1_000)), seed)
        for seed in (draw.randbytes(32) for _ in range(count))
    ]


def _name(size: int) -> str:
    return f"tokens_per_second_at_{size}"
