"""What a unit of many requests saves: `textgen-int8` over the same requests, cut into batches of each size.

Run: OPENBLAS_NUM_THREADS=1 python -m benchmarks text_batches    about 30 seconds; BACKEND=torch-cpu chooses another one

Lengths and temperatures are mixed, as customers mix them: texts end at other times, and lanes are filled anew. A batch
of one is a request alone. Process time, but wall time on a GPU; medians of rounds in turns.
"""

import os
import random
import time
from collections.abc import Callable

from benchmarks.figures import Figures, median_figures
from gpu_tasks.workloads.registry import open_workload
from gpu_tasks.workloads.textgen_int8.request import CompletionRequest, encode_request
from gpu_tasks.workloads.workload import Workload

REQUESTS, ROUNDS = 128, 3
BATCHES = (1, 8, 32, 128)
SEED = 2027
TEXT = b"import os\n\n\ndef main(argv):\n    for name in argv:\n        print(name)\n"


def measure() -> Figures:
    """Tokens a second by the requests of a batch; and that of the largest over that of one by one."""
    backend = os.environ.get("BACKEND", "numpy")
    workload = open_workload("textgen-int8", backend)
    clock = time.perf_counter if "cuda" in backend else time.process_time
    asked = mixed_requests(REQUESTS)
    found = median_figures(
        [{_name(size): rate(workload, clock, asked, size) for size in BATCHES} for _ in range(ROUNDS)]
    )
    return {**found, "batch_over_one_by_one": found[_name(BATCHES[-1])] / found[_name(BATCHES[0])]}


def rate(workload: Workload, clock: Callable[[], float], asked: list[bytes], size: int) -> float:
    """Tokens a second, the requests cut into batches of a size."""
    began, tokens = clock(), 0
    for start in range(0, len(asked), size):
        tokens += sum(len(output or b"") for _, output in workload.run_many(asked[start : start + size]))
    return tokens / (clock() - began)


def mixed_requests(count: int) -> list[bytes]:
    """Prompts of up to 64 bytes, 8 to 40 tokens, one in four of them greedy."""
    draw = random.Random(SEED)
    return [
        encode_request(
            CompletionRequest(TEXT[: draw.randrange(64)], draw.randint(8, 40), draw.choice((0, 500, 800, 1_000)), seed)
        )
        for seed in (draw.randbytes(32) for _ in range(count))
    ]


def _name(size: int) -> str:
    return f"tokens_per_second_at_{size}"
