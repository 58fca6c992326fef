"""How much longer `ogpu-wallet balance` takes with proof than with `--trust-node`, by the clock, against a real node.

Run: python -m benchmarks.balance          about a minute, on a machine with nothing else to do

Pairs of whole programs, from their start to their end: one proves, one believes, each first in every other pair, so
that what a neighbour costs falls on both. What is compared is the difference within a pair. Writes out/balance.json;
exit status 1 if the median or the 90th percentile of the differences is above the bar.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figures, machine
from benchmarks.node import node, until, wait_for_line, write_spec
from devnet.launcher.free_ports import one_free_port
from devnet.launcher.lifecycle import ending_on_signals
from devnet.launcher.processes import source_path
from devnet.launcher.status import answers
from genesis.presets import load_spec
from simulation.runs import ended

PAIRS = 20
EXTRA_MS_MAX = 300.0
"""What a proof may add to the command, in the middle and in nine of ten pairs."""
READY_SECONDS = 60.0
MILLISECONDS = 1e3
OUT = Path("out/balance.json")
TRUSTING = "--trust-node"

Pair = tuple[float, float]
"""Milliseconds with proof, and without."""


def main() -> int:
    """Measure, write, compare, sum up."""
    pairs = measured()
    found = figures(pairs)
    failures = missed(found)
    content = {"machine": machine(), "bar_ms": EXTRA_MS_MAX, "failures": failures, "figures": found, "pairs_ms": pairs}
    return ended(OUT, content, failures, line(found))


def measured() -> list[Pair]:
    """A development node, a keyring that has met its chain, and the pairs."""
    with tempfile.TemporaryDirectory() as name, ending_on_signals():
        folder, port = Path(name), one_free_port()
        spec = write_spec(load_spec("dev"), folder)
        with node("ogpu-node", spec, folder, "--alice", "--rpc-port", str(port)) as process:
            wait_for_line(process, "final #1 ")
            until(lambda: answers(port), READY_SECONDS)
            words = ["--url", f"ws://127.0.0.1:{port}", "--keyring", str(folder / "keys"), "--json"]
            balance_ms(words)  # the first use of a keyring, and of the files that Python reads, is another thing
            balance_ms([*words, TRUSTING])
            return [pair_of(words, is_proved_first=bool(number % 2)) for number in range(PAIRS)]


def pair_of(words: Sequence[str], *, is_proved_first: bool) -> Pair:
    """One pair."""
    if is_proved_first:
        proved = balance_ms(words)
        return proved, balance_ms([*words, TRUSTING])
    trusting = balance_ms([*words, TRUSTING])
    return balance_ms(words), trusting


def balance_ms(words: Sequence[str]) -> float:
    """Milliseconds of one program from its start to its end; CalledProcessError if it fails."""
    command = [sys.executable, "-m", "cli.wallet.program", *words, "balance", "//Alice"]
    begun = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **(source_path() or {})})
    return (time.perf_counter() - begun) * MILLISECONDS


def figures(pairs: Sequence[Pair]) -> Figures:
    """Medians of both, median and 90th percentile of what the proof adds, and its median ratio."""
    proved, trusting = zip(*pairs, strict=True)
    extra = [with_proof - without for with_proof, without in pairs]
    found = {
        "proved_median_ms": statistics.median(proved),
        "trusting_median_ms": statistics.median(trusting),
        "extra_median_ms": statistics.median(extra),
        "extra_p90_ms": ninetieth(extra),
        "ratio_median": statistics.median(with_proof / without for with_proof, without in pairs),
        "pairs": len(pairs),
    }
    return {name: round(figure, 2) for name, figure in found.items()}


def ninetieth(values: Sequence[float]) -> float:
    """The least value that nine of ten are not above."""
    return sorted(values)[-(-len(values) * 9 // 10) - 1]


def missed(found: Figures) -> list[str]:
    """The bars that figures miss, in words."""
    return [
        f"{name} is {found[name]}, the bar is {EXTRA_MS_MAX:.0f}"
        for name in ("extra_median_ms", "extra_p90_ms")
        if found[name] > EXTRA_MS_MAX
    ]


def line(found: Figures) -> str:
    """All of it in one line."""
    return (
        f"balance: with proof {found['proved_median_ms']:.0f} ms, without {found['trusting_median_ms']:.0f}; the proof "
        f"adds {found['extra_median_ms']:.0f} ms (p90 {found['extra_p90_ms']:.0f}, at most {EXTRA_MS_MAX:.0f}), "
        f"{found['ratio_median']:.2f} times, in {found['pairs']:.0f} pairs"
    )


if __name__ == "__main__":
    sys.exit(main())
