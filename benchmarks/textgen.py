"""CPU time of `textgen-int8`: decoding, prefill, and what a check costs against the work it checks.

Run: OPENBLAS_NUM_THREADS=1 python -m benchmarks textgen          about 5 seconds; BACKEND=torch-cpu chooses another one

More BLAS threads burn CPU time in waiting and gain nothing at this size. Process time counts all threads, so it says
what a shared machine really pays; on a GPU, whose work it does not count, wall time is taken instead.
"""

import os
import time
from collections.abc import Callable

from benchmarks.figures import Figures
from gpu_tasks.workloads.registry import open_workload
from gpu_tasks.workloads.textgen_int8.request import CompletionRequest, encode_request

PROMPT = b"import os\n\n\ndef main(argv):\n    "
ROUNDS = 9


def measure() -> Figures:
    """Medians of `ROUNDS`; greedy, so that no text ends early by chance."""
    backend = os.environ.get("BACKEND", "numpy")
    workload = open_workload("textgen-int8", backend)
    clock = time.perf_counter if "cuda" in backend else time.process_time
    short, long = request(48), request(200)
    output = workload.run(long)
    generate_short = median_of(clock, lambda: workload.run(short))
    generate_long = median_of(clock, lambda: workload.run(long))
    verify = median_of(clock, lambda: workload.verify(long, output))
    return {
        "decode_tokens_per_second": round((len(output) - 48) / (generate_long - generate_short)),
        "prefill_tokens_per_second": round((len(PROMPT) + len(output)) / verify),
        "generate_to_verify": round(generate_long / verify, 1),
        "generate_48_ms": round(generate_short * 1000, 1),
        "verify_200_ms": round(verify * 1000, 1),
        "output_tokens": len(output),
        "blas_threads": int(os.environ.get("OPENBLAS_NUM_THREADS", "0")),
        "cores": os.cpu_count() or 0,
    }


def request(tokens: int) -> bytes:
    """Greedy continuation of `PROMPT`."""
    return encode_request(CompletionRequest(PROMPT, tokens, 0, bytes(32)))


def median_of(clock: Callable[[], float], work: Callable[[], object]) -> float:
    """Median seconds of `ROUNDS` runs."""
    seconds = []
    for _ in range(ROUNDS):
        start = clock()
        work()
        seconds.append(clock() - start)
    return sorted(seconds)[ROUNDS // 2]
