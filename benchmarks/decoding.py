"""CPU time of the built-in language model: decoding, prefill, and the cost of a check relative to the checked work.

    Run: OPENBLAS_NUM_THREADS=1 python -m benchmarks decoding         about 5 seconds

BACKEND=torch-cpu chooses another backend. More BLAS threads waste CPU time in waiting, without any gain at this size.
Process time counts all threads, so it shows the cost on a shared machine. On a GPU, whose work process time omits, the
benchmark uses wall time.
"""

import os
import time
from collections.abc import Callable

from benchmarks.built_in import PROMPT, WORKLOAD, greedy, tokens_of
from benchmarks.figures import Figures
from gpu_tasks.workloads.model_forms import open_workload

ROUNDS = 9


def measure() -> Figures:
    """Return the medians of `ROUNDS`. Requests are greedy, so that no text ends early by chance."""
    backend = os.environ.get("BACKEND", "numpy")
    workload = open_workload(WORKLOAD, backend)
    clock = time.perf_counter if "cuda" in backend else time.process_time
    short, long = greedy(48), greedy(200)
    output = workload.run(long)
    tokens = tokens_of(output)
    generate_short = median_of(clock, lambda: workload.run(short))
    generate_long = median_of(clock, lambda: workload.run(long))
    verify = median_of(clock, lambda: workload.verify(long, output))
    return {
        # The difference of two lengths removes the costs of the prompt and of the call.
        "decode_tokens_per_second": round((tokens - 48) / (generate_long - generate_short)),
        "prefill_tokens_per_second": round((len(PROMPT) + tokens) / verify),
        "generate_to_verify": round(generate_long / verify, 1),
        "generate_48_ms": round(generate_short * 1000, 1),
        "verify_200_ms": round(verify * 1000, 1),
        "output_tokens": tokens,
        "blas_threads": int(os.environ.get("OPENBLAS_NUM_THREADS", "0")),
        "cores": os.cpu_count() or 0,
    }


def median_of(clock: Callable[[], float], work: Callable[[], object]) -> float:
    """Return the median seconds of `ROUNDS` runs."""
    seconds = []
    for _ in range(ROUNDS):
        start = clock()
        work()
        seconds.append(clock() - start)
    return sorted(seconds)[ROUNDS // 2]
