"""`make peers`: this node and anvil in one harness, in turns. The exit status is 1 below `verdict.BAR` times anvil.

Both are single nodes on this machine. Transfers signed in advance go in as JSON-RPC batches over HTTP. The clock runs
from the first request until a client can know that the last transfer is final. docs/benchmarks.md discusses the
fairness of the comparison.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figures, machine
from benchmarks.peers import verdict
from benchmarks.peers.anvil import Anvil
from benchmarks.peers.race import Contestant, Result, race
from benchmarks.peers.this_node import ThisNode
from benchmarks.peers.verdict import Pair, Standing
from benchmarks.peers.workload import Shape, bodies
from devnet.launcher.folder import DevnetError
from devnet.launcher.lifecycle import ending_on_signals
from simulation.runs import ended

SENDERS = 500
SHAPES = ("500x8", "250x4")
OUT = Path("out/peers.json")
ANVIL = "node_modules/@foundry-rs/anvil-*/bin/anvil"


# Peers in one process without a network: LiteSVM, py-evm, and this node during sync. They do different parts of a
# node's work (see docs/benchmarks.md), so their figures are reported without a bar. The report names missing programs,
# and the others run.
PROGRAMS = Path(__file__).parent / "libraries"
LIBRARIES = {"LiteSVM": ("litesvm.py", "20000", "500"), "py-evm": ("py_evm.py", "4", "500")}
"""Each library's program and arguments, chosen so that it runs for some seconds."""
NATIVE = {"ETH_HASH_BACKEND": "pysha3"}  # py-evm would otherwise choose the slower of two installed hashes
Said = dict[str, object]


def measure_libraries(python: Path) -> dict[str, Said]:
    """Return each library's figures, or the reason why there are none."""
    return {
        name: _of_library(name, [str(python), str(PROGRAMS / words[0]), *words[1:]])
        for name, words in LIBRARIES.items()
    }


def measure_sync() -> Said:
    """Return the figures of this node's benchmark `sync`, under the libraries' names."""
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks", "sync", "--json"], stdout=subprocess.PIPE, check=True, text=True
    )
    figures: Figures = json.loads(answer.stdout.splitlines()[-1])
    return {"per_second": figures["per_second"], "cpu_us": figures["cpu_us"], **figures}


def _of_library(name: str, command: list[str]) -> Said:
    try:
        answer = subprocess.run(command, capture_output=True, check=True, text=True, env={**os.environ, **NATIVE})
    except FileNotFoundError:
        return _left_out(name, f"there is no {command[0]}")
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or [f"it ended with status {error.returncode}"]
        return _left_out(name, lines[-1])
    found: Said = json.loads(answer.stdout.splitlines()[-1])
    return found


def _left_out(name: str, reason: str) -> Said:
    print(f"{name} NOT RUN: {reason}", flush=True)
    return {"not run": reason}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all shapes, then the libraries. Write the report and print the verdict."""
    options = _parse(arguments)
    started = time.monotonic()
    taken_on = machine()
    anvil = Anvil(_program(options.npm), SENDERS, options.anvil_block_time)
    shapes = [_shape(text, options.transfers) for text in options.shapes]
    with ending_on_signals():
        standings = measure(ThisNode(SENDERS), anvil, shapes, options.rounds)
        apart = {} if options.nodes_only else {"this node syncing": measure_sync(), **measure_libraries(options.python)}
    failures = verdict.failures(standings)
    report = {
        "machine": taken_on | {"anvil": anvil.version(), "anvil_block_time": options.anvil_block_time},
        "failures": failures,
        "shapes": {standing.label: standing.report() for standing in standings},
        "without network": apart,
    }
    return ended(OUT, report, failures, verdict.line(standings, apart, round(time.monotonic() - started)))


def measure(ours: Contestant, theirs: Contestant, shapes: Sequence[Shape], rounds: int) -> list[Standing]:
    """Run pairs of races. The shapes alternate, and so does the node that runs first."""
    hands = {contestant.name: _signed(contestant, shapes) for contestant in (ours, theirs)}
    pairs: dict[Shape, list[Pair]] = {shape: [] for shape in shapes}
    for turn in range(rounds):
        for shape in shapes:
            found: dict[str, Result] = {}
            for contestant in (ours, theirs) if turn % 2 == 0 else (theirs, ours):
                found[contestant.name] = race(contestant, shape, hands[contestant.name][shape])
                _tell(contestant, shape, found[contestant.name])
            pairs[shape].append(Pair(found[ours.name], found[theirs.name]))
    return [Standing(shape.label, pairs[shape]) for shape in shapes]


def _signed(contestant: Contestant, shapes: Sequence[Shape]) -> dict[Shape, list[list[bytes]]]:
    """Return the signed requests of every shape. All shapes use the same transfers."""
    print(f"{contestant.name}: {shapes[0].transfers:,} transfers are signed", flush=True)
    with tempfile.TemporaryDirectory(prefix=f"ogpu-signing-{contestant.name}-") as folder:
        signed = contestant.sign(list(shapes[0].all_transfers()), Path(folder))
    return {shape: bodies(shape, contestant.submit_method, signed) for shape in shapes}


def _tell(contestant: Contestant, shape: Shape, result: Result) -> None:
    cpu = ", ".join(f"{role} {used:.0f}" for role, used in result.cpu_us.items())
    memory = ", ".join(f"{role} {used:.0f}" for role, used in result.peak_mib.items())
    again = f"; {result.handed_in_again} handed in again: {result.refusal}" if result.handed_in_again else ""
    print(
        f"{contestant.name:<6}{shape.label:<8}{result.handed_in_per_second:>8,.0f} handed in, "
        f"{result.final_per_second:>7,.0f} final a second; CPU us: {cpu}; MiB: {memory}{again}",
        flush=True,
    )


def _shape(text: str, transfers: int) -> Shape:
    batch, _, connections = text.partition("x")
    return Shape(transfers, SENDERS, int(batch), int(connections))


def _program(folder: Path) -> Path:
    found = next(iter(sorted(folder.glob(ANVIL))), None)
    if found is None:
        raise DevnetError(f"no anvil in {folder}: `make peers` installs it with npm, on Linux with amd64")
    return found


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="pairs of runs of each shape")
    parser.add_argument("--transfers", type=int, default=30_000, help=f"a multiple of {SENDERS}")
    parser.add_argument("--shapes", nargs="+", default=SHAPES, help="BATCHxCONNECTIONS")
    parser.add_argument("--anvil-block-time", default="1", help="seconds")
    parser.add_argument("--nodes-only", action="store_true", help="skip the measurements without a network")
    parser.add_argument("--npm", type=Path, default=Path(".peers"), help="where npm installed anvil")
    parser.add_argument("--python", type=Path, default=Path(".venv-peers/bin/python"), help="with LiteSVM and py-evm")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DevnetError as failure:
        sys.exit(f"peers: {failure}")
