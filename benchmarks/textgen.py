"""CPU time of `textgen-int8`: decoding, prefill, and the cost of a check relative to the checked work.

    Run: OPENBLAS_NUM_THREADS=1 python -m benchmarks textgen          about 5 seconds

BACKEND=torch-cpu chooses another backend. More BLAS threads waste CPU time in waiting, without any gain at this size.
Process time counts all threads, so it shows the cost on a shared machine. On a GPU, whose work process time omits, the
benchmark uses wall time.
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
    """Return the medians of `ROUNDS`. Requests are greedy, so that no text ends early by chance."""
    backend = os.environ.get("BACKEND", "numpy")
    workload = open_workload("textgen-int8", backend)
    clock = time.perf_counter if "cuda" in backend else time.process_time
    short, long = request(48), request(200)
    output = workload.run(long)
    generate_short = median_of(clock, lambda: workload.run(short))
    generate_long = median_of(clock, lambda: workload.run(long))
    verify = median_of(clock, lambda: workload.verify(long, output))
    return {
        # The difference of two lengths removes the costs of the prompt and of the call.
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
    """Return a request for a greedy continuation of `PROMPT`."""
    return encode_request(CompletionRequest(PROMPT, tokens, 0, bytes(32)))


def median_of(clock: Callable[[], float], work: Callable[[], object]) -> float:
    """Return the median seconds of `ROUNDS` runs."""
    seconds = []
    for _ in range(ROUNDS):
        start = clock()
        work()
        seconds.append(clock() - start)
    return sorted(seconds)[ROUNDS // 2]
