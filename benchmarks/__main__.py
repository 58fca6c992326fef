"""`make bench`: every benchmark in a process of its own. Writes out/bench.json and prints a line of figures.

`python -m benchmarks NAME` runs one benchmark in this process. With `--json` it prints its figures as one line for
programs. The exit status is 1 if a ratio misses its bar.

Bars are ratios of times taken in one run. A time alone depends as much on the machine and its other programs as on this
code.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

from benchmarks.figures import Figures, machine
from simulation.runs import ended

BENCHMARKS = (
    "signatures", "trie", "transfers", "sync", "consensus", "market", "crowds", "auction", "p2p", "decoding",
    "text_batches", "training", "devnet", "end_to_end",
)  # fmt: skip
BARS = {
    ("sync", "of_limit"): 0.55,
    ("transfers", "import_at_hand_of_limit"): 0.33,
    ("transfers", "import_warm_of_limit"): 0.5,
    ("decoding", "generate_to_verify"): 1.5,
    ("text_batches", "batch_over_one_by_one"): 1.5,
}
"""The lowest permitted ratio by (benchmark, figure).

The bars of parts lie below the measured ratios, so that noise does not fail them. The bar of `sync` is the design's.
"""
OUT = Path("out/bench.json")


def main() -> int:
    """Run one benchmark and print its figures, or run all, write the report and print a summary."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "name",
        nargs="?",
        help=f"only this: {', '.join(BENCHMARKS)}, traffic, decoder, decoder_quality, live_decoding or vouchers",
    )
    parser.add_argument("--json", action="store_true", help="with a name: its figures as one line for programs")
    options = parser.parse_args()
    if options.name is not None:
        figures: Figures = import_module(f"benchmarks.{options.name}").measure()
        print(json.dumps(figures) if options.json else shown(figures))
        return 0
    started = time.monotonic()
    found = {name: run(name) for name in BENCHMARKS}
    failures = [
        f"{name}: {figure} is {found[name][figure]}, the bar is {least}"
        for (name, figure), least in BARS.items()
        if found[name][figure] < least
    ]
    seconds = round(time.monotonic() - started)
    content = {"machine": machine(), "seconds": seconds, "failures": failures, "figures": found}
    return ended(OUT, content, failures, line(found, seconds))


def run(name: str) -> Figures:
    """Run one benchmark in a fresh process, without the memory and threads of earlier ones."""
    print(f"== {name}", flush=True)
    command = [sys.executable, "-m", "benchmarks", name, "--json"]
    answer = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env=one_thread())
    figures: Figures = json.loads(answer.stdout.splitlines()[-1])
    print(shown(figures), flush=True)
    return figures


def shown(figures: Figures) -> str:
    """Return one line for each figure."""
    return "\n".join(f"{name:<44}{value:>14,.2f}" for name, value in figures.items())


def one_thread() -> dict[str, str]:
    """Return the environment with BLAS limited to one thread, as everywhere in this project."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


def line(found: dict[str, Figures], seconds: int) -> str:
    """Return the most important figures as one line."""
    step, net, text, votes = found["transfers"], found["devnet"], found["decoding"], found["consensus"]
    sync, end, batch = found["sync"], found["end_to_end"], found["text_batches"]
    stages = ", ".join(
        f"{name} {step[f'{name}_us']:.0f}" for name in ("decode", "verify", "execute", "finalise", "root", "persist")
    )
    parts = (
        f"CPU us per transfer: {stages}, pool {step['admission_in_node_us']:.0f}",
        f"import {step['import_warm_of_limit']:.2f} of the signature limit, signatures known",
        f"sync {sync['of_limit']:.2f} of libsodium's, {sync['per_second']:,.0f} a second",
        f"end to end {end['final_per_second']:,.0f} final a second, CPU us {end['cpu_us']:.0f}",
        f"final p50 {net['rest_final_p50_ms']:.0f} p99 {net['rest_final_p99_ms']:.0f} ms",
        f"consensus {votes['machine_per_block_us']:.0f} us a block, {votes['machine_per_poll_us']:.0f} a poll",
        f"decode {text['decode_tokens_per_second']:.0f}, prefill {text['prefill_tokens_per_second']:.0f} tokens/s",
        f"in batches {batch['tokens_per_second_at_128']:.0f}, {batch['batch_over_one_by_one']:.1f} times one by one",
        f"MiB: node {net['rss_node_mib']:.0f}, rpc {net['rss_rpc_mib']:.0f}, provider {net['rss_provider_mib']:.0f}",
        f"{seconds} s",
    )
    return "bench: " + "; ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
