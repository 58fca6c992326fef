"""CPU time of `textgen-int8`: decoding, prefill, and what a check costs against the work it checks.

Run: OPENBLAS_NUM_THREADS=1 python -m benchmarks.textgen [backend]     default: numpy

More BLAS threads burn CPU time in waiting and gain nothing at this size. Process time counts all threads, so it says
what a shared machine really pays; on a GPU, whose work it does not count, wall time is taken instead.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gpu_tasks.workloads.registry import open_workload
from gpu_tasks.workloads.textgen_int8.request import Request, encode_request

PROMPT = b"import os\n\n\ndef main(argv):\n    "
ROUNDS = 9
DECODE_TOKENS_PER_SECOND_MIN = 30
OUT = Path("out/textgen.json")


def main() -> int:
    """Measure, print one line, write JSON; fails below the least speed that a devnet needs."""
    backend = sys.argv[1] if len(sys.argv) > 1 else "numpy"
    figures = measure(backend)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(figures, indent=1) + "\n")
    print(
        f"textgen-int8 {backend}: decode {figures['decode_tokens_per_second']} tokens/s, "
        f"prefill {figures['prefill_tokens_per_second']} tokens/s, "
        f"verify:generate 1:{figures['generate_to_verify']}, 48 tokens {figures['generate_48_ms']} ms ({OUT})"
    )
    return 0 if figures["decode_tokens_per_second"] >= DECODE_TOKENS_PER_SECOND_MIN else 1


def measure(backend: str) -> dict[str, float]:
    """Medians of `ROUNDS`; greedy, so that no text ends early by chance."""
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
    return encode_request(Request(PROMPT, tokens, 0, bytes(32)))


def median_of(clock: Callable[[], float], work: Callable[[], object]) -> float:
    """Median seconds of `ROUNDS` runs."""
    seconds = []
    for _ in range(ROUNDS):
        start = clock()
        work()
        seconds.append(clock() - start)
    return sorted(seconds)[ROUNDS // 2]


if __name__ == "__main__":
    sys.exit(main())
