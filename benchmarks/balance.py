"""The extra wall time of `ogpu-wallet balance` with proof over `--trust-node`, against a real node.

    Run: python -m benchmarks.balance          about a minute, on a machine with nothing else to do

Each pair runs two whole programs, one with proof and one without, from start to exit. The order alternates, so that
other programs on the machine slow both alike. The benchmark compares the differences within pairs. Writes
out/balance.json. The exit status is 1 if the median or the 90th percentile of the differences is above the bar.
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
"""The longest time that a proof may add to the command, as the median and as the 90th percentile of the differences."""
READY_SECONDS = 60.0
MILLISECONDS = 1e3
OUT = Path("out/balance.json")
TRUSTING = "--trust-node"

Pair = tuple[float, float]
"""Milliseconds with proof, and without."""


def main() -> int:
    """Measure, write the report and print a summary."""
    pairs = measured()
    found = figures(pairs)
    failures = missed(found)
    content = {"machine": machine(), "bar_ms": EXTRA_MS_MAX, "failures": failures, "figures": found, "pairs_ms": pairs}
    return ended(OUT, content, failures, line(found))


def measured() -> list[Pair]:
    """Return the times of all pairs, with a development node and a keyring that already stores the chain's identity."""
    with tempfile.TemporaryDirectory() as name, ending_on_signals():
        folder, port = Path(name), one_free_port()
        spec = write_spec(load_spec("dev"), folder)
        with node("ogpu-node", spec, folder, "--alice", "--rpc-port", str(port)) as process:
            wait_for_line(process, "final #1 ")
            until(lambda: answers(port), READY_SECONDS)
            words = ["--url", f"ws://127.0.0.1:{port}", "--keyring", str(folder / "keys"), "--json"]
            balance_ms(words)  # the first use of a keyring and of Python's files takes longer than later ones
            balance_ms([*words, TRUSTING])
            return [pair_of(words, is_proved_first=bool(number % 2)) for number in range(PAIRS)]


def pair_of(words: Sequence[str], *, is_proved_first: bool) -> Pair:
    """Return the times of one pair."""
    if is_proved_first:
        proved = balance_ms(words)
        return proved, balance_ms([*words, TRUSTING])
    trusting = balance_ms([*words, TRUSTING])
    return balance_ms(words), trusting


def balance_ms(words: Sequence[str]) -> float:
    """Return the milliseconds of one program from start to exit. Raise CalledProcessError if it fails."""
    command = [sys.executable, "-m", "cli.wallet.program", *words, "balance", "//Alice"]
    begun = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **(source_path() or {})})
    return (time.perf_counter() - begun) * MILLISECONDS


def figures(pairs: Sequence[Pair]) -> Figures:
    """Return both medians, the median and 90th percentile of the proof's extra time, and the median ratio."""
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
    """Return the 90th percentile by the nearest-rank method."""
    return sorted(values)[-(-len(values) * 9 // 10) - 1]


def missed(found: Figures) -> list[str]:
    """Return one sentence for each missed bar."""
    return [
        f"{name} is {found[name]}, the bar is {EXTRA_MS_MAX:.0f}"
        for name in ("extra_median_ms", "extra_p90_ms")
        if found[name] > EXTRA_MS_MAX
    ]


def line(found: Figures) -> str:
    """Return all figures as one line."""
    return (
        f"balance: with proof {found['proved_median_ms']:.0f} ms, without {found['trusting_median_ms']:.0f}; the proof "
        f"adds {found['extra_median_ms']:.0f} ms (p90 {found['extra_p90_ms']:.0f}, at most {EXTRA_MS_MAX:.0f}), "
        f"{found['ratio_median']:.2f} times, in {found['pairs']:.0f} pairs"
    )


if __name__ == "__main__":
    sys.exit(main())
