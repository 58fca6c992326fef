"""`make bench`: every benchmark, each in a process of its own; out/bench.json, and at the end one line of figures.

Exit status 1 if a bar fails. Bars are ratios of CPU times taken in one run, because times alone say as much about the
machine and its other programs as about this code.
"""

import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks.figures import Figures

BENCHMARKS = ("signatures", "trie", "transfers", "consensus", "p2p", "textgen", "devnet")
BARS = {
    ("transfers", "import_cold_of_limit"): 0.33,
    ("transfers", "import_warm_of_limit"): 0.5,
    ("textgen", "generate_to_verify"): 1.5,
}
"""The least that a ratio may be: (benchmark, figure). Below what is measured, so that noise does not fail them."""
VERSIONS = ("PyNaCl", "numpy", "plyvel", "trio", "libp2p")
OUT = Path("out/bench.json")


def main() -> int:
    """Run all, write, compare, sum up."""
    started = time.monotonic()
    found = {name: run(name) for name in BENCHMARKS}
    failures = [
        f"{name}: {figure} is {found[name][figure]}, the bar is {least}"
        for (name, figure), least in BARS.items()
        if found[name][figure] < least
    ]
    seconds = round(time.monotonic() - started)
    OUT.parent.mkdir(exist_ok=True)
    content = {"machine": machine(), "seconds": seconds, "failures": failures, "figures": found}
    OUT.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for failure in failures:
        print(f"FAILED {failure}")
    print(line(found, seconds))
    return 1 if failures else 0


def run(name: str) -> Figures:
    """One benchmark in a fresh process, so that none finds the memory or the threads of another."""
    print(f"== {name}", flush=True)
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json"]
    answer = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env=one_thread())
    figures: Figures = json.loads(answer.stdout.splitlines()[-1])
    for figure, value in figures.items():
        print(f"{figure:<44}{value:>14,.2f}", flush=True)
    return figures


def one_thread() -> dict[str, str]:
    """The environment, with BLAS on one thread as everywhere in this project."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


def machine() -> dict[str, object]:
    """What the figures were taken on, and how busy it was: the load counts other programs, too."""
    model = [line for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if "model name" in line]
    return {
        "cpu": model[0].partition(":")[2].strip() if model else platform.machine(),
        "cores": os.cpu_count(),
        "load": [round(average, 1) for average in os.getloadavg()],
        "python": platform.python_version(),
        "packages": {name: version(name) for name in VERSIONS},
    }


def line(found: dict[str, Figures], seconds: int) -> str:
    """The figures that decide."""
    step = found["transfers"]
    net = found["devnet"]
    text = found["textgen"]
    votes = found["consensus"]
    stages = ", ".join(
        f"{name} {step[f'{name}_us']:.0f}" for name in ("decode", "verify", "execute", "finalise", "root", "persist")
    )
    parts = (
        f"CPU us per transfer: {stages}, pool {step['admission_in_node_us']:.0f}",
        f"import {step['import_cold_of_limit']:.2f} of the signature limit",
        f"{step['import_warm_of_limit']:.2f} with signatures known",
        f"final p50 {net['rest_final_p50_ms']:.0f} p99 {net['rest_final_p99_ms']:.0f} ms",
        f"consensus {votes['machine_per_block_us']:.0f} us a block, {votes['machine_per_poll_us']:.0f} a poll",
        f"decode {text['decode_tokens_per_second']:.0f}, prefill {text['prefill_tokens_per_second']:.0f} tokens/s",
        f"MiB: node {net['rss_node_mib']:.0f}, rpc {net['rss_rpc_mib']:.0f}, provider {net['rss_provider_mib']:.0f}",
        f"{seconds} s",
    )
    return "bench: " + "; ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
