"""`make weights`: the real cost of every call, every hook and whole blocks, over their declared weights.

The chain has 100,000 accounts over a real database (`world`). Costs are in signatures of the same run (`timing`). The
exit status is 1 if a case takes more than 1.5 times its declared weight, or a full block more than 0.75 of a slot. With
`--write` there are three runs, and the command writes the tables. Code and pallets use them from the next run on.
Writes out/weights.json and prints one line.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median

from benchmarks.figures import machine
from benchmarks.weights import tables
from benchmarks.weights.capacity_cases import CapacityCalls
from benchmarks.weights.chain_cases import measure as measure_the_chain
from benchmarks.weights.claim_cases import ClaimCalls
from benchmarks.weights.findings import RATIO_MAX, Findings
from benchmarks.weights.gang_cases import GangCalls
from benchmarks.weights.hook_cases import MarketHook
from benchmarks.weights.market_cases import MarketCalls
from benchmarks.weights.races import Races
from benchmarks.weights.staking_cases import Staking
from benchmarks.weights.task_cases import TaskCalls
from benchmarks.weights.task_hook import TaskHook
from benchmarks.weights.task_road import Tasks
from benchmarks.weights.timer import Meter, Scale
from benchmarks.weights.voter_cases import VoterCalls
from benchmarks.weights.whole_blocks import SHARE_MAX, WholeBlocks
from benchmarks.weights.world import ACCOUNTS, SENDERS, World
from node import process
from simulation.runs import ended

OUT = Path("out/weights.json")
FIRST_BLOCKS = 5
COUNTED = ("extrinsics_of_nothing", "transfers_count")
EXTRINSICS_MIN = 2_000
"""The fewest extrinsics of a block that show the cost of each one."""
RUNS_WRITTEN = 3
"""Runs of `--write`. The tables hold the median, because machines have slow minutes."""


def main() -> int:
    """Measure, compare, write the report and print a summary."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.weights", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the measured weights to the tables")
    parser.add_argument("--missing", action="store_true", help="with --write: only rows that no table has yet")
    parser.add_argument(
        "--accounts", type=int, default=ACCOUNTS, help="accounts in the state; the tables need the default"
    )
    chosen = parser.parse_args()
    started = time.monotonic()
    runs = [in_a_world(chosen.accounts) for _ in range(RUNS_WRITTEN if chosen.write else 1)]
    found = runs[-1]
    rows = {name: round(median(run.rows[name] for run in runs)) for name in sorted(found.rows)}
    lacking = tables.names() - rows.keys()
    failures = [f"{name}: it is not measured" for name in sorted(lacking)] + missed(found)
    if min(found.figures[count] for count in COUNTED) < EXTRINSICS_MIN:
        failures.append("a block holds too few extrinsics by the tables of now: write once more for those of thousands")
    status = report(found, rows, failures, round(time.monotonic() - started))
    if chosen.write and not lacking:
        tables.write(rows, only_missing=chosen.missing)
        return 0
    return status


def in_a_world(accounts: int) -> Findings:
    """Measure everything in a new world."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), accounts, min(SENDERS, accounts - 6_000))
        try:
            return measured(world)
        finally:
            world.close()


def measured(world: World) -> Findings:
    """Measure everything in a fixed order. Each part continues from the earlier parts' state."""
    world.blocks(FIRST_BLOCKS)
    process.settle_memory()
    races, tasks, found = Races(world), Tasks(world), Findings(Meter(world, Scale()))
    parts: tuple[tuple[str, Callable[[], None]], ...] = (
        ("the chain's own calls", partial(measure_the_chain, world, found)),
        ("staking", Staking(world, found).measure_all),
        ("the market's calls", MarketCalls(world, found, races).measure),
        ("the calls of claims", ClaimCalls(world, found, races).measure),
        ("the calls of voters", VoterCalls(world, found, races).measure),
        ("the disputes about gangs", GangCalls(world, found, races, tasks).measure),
        ("the market's hook", MarketHook(world, found, races).measure),
        ("the calls of roll calls", CapacityCalls(world, found, races).measure),
        ("the calls about tasks", TaskCalls(world, found, tasks).measure),
        ("the hook of tasks", TaskHook(world, found, tasks).measure),
        ("whole blocks", WholeBlocks(world, found, races).measure),
    )
    for name, part in (*parts, *_pallets_alone(world, found)):
        print(f"== {name}, at block {world.height}", flush=True)
        part()
    return found


def _pallets_alone(world: World, found: Findings) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the cases of pallets without races or tasks: the function `measure` of each module `*_cases` here."""
    for file in sorted(Path(__file__).parent.glob("*_cases.py")):
        measure = getattr(import_module(f"benchmarks.weights.{file.stem}"), "measure", None)
        if measure is not None and measure is not measure_the_chain:
            yield file.stem, partial(measure, world, found)


def missed(found: Findings) -> list[str]:
    """Return one sentence for each case above its bar."""
    over = [
        f"{name}: {ratio.value:.2f} times its weight, the bar is {RATIO_MAX}"
        for name, ratio in found.ratios.items()
        if ratio.is_missed
    ]
    shares = {name: share for name, share in found.figures.items() if name.endswith("_share_of_slot")}
    return over + [f"{name}: {share}, the bar is {SHARE_MAX}" for name, share in shares.items() if share > SHARE_MAX]


def report(found: Findings, rows: dict[str, int], failures: list[str], seconds: int) -> int:
    """Write every figure to a file, print the failures and the line, and return the exit status."""
    signature = 1e6 * sorted(found.meter.scale.seen)[len(found.meter.scale.seen) // 2]
    ratios = {
        name: {"real_ns": round(ratio.real), "declared_ns": round(ratio.declared), "ratio": round(ratio.value, 3)}
        for name, ratio in sorted(found.ratios.items())
    }
    content = {
        "machine": machine(), "seconds": seconds, "signature_us": round(signature, 2), "failures": failures,
        "figures": found.figures, "ratios": ratios, "rows_ns": rows,
    }  # fmt: skip
    blocks = {name: ratio for name, ratio in found.ratios.items() if name.startswith("block: ")}
    rest = {name: ratio for name, ratio in found.ratios.items() if name not in blocks}
    worst = max(rest, key=lambda name: rest[name].value)
    worst_block = max(blocks, key=lambda name: blocks[name].value)
    share = max(value for name, value in found.figures.items() if name.endswith("_share_of_slot"))
    line = (
        f"weights: {len(rest)} cases, worst {rest[worst].value:.2f} ({worst}); {len(blocks)} blocks, worst "
        f"{blocks[worst_block].value:.2f} ({worst_block.removeprefix('block: ')}), at most {share:.2f} of a slot; "
        f"{found.figures['transfers_count']:,.0f} transfers in a block; an extrinsic weighs "
        f"{rows['extrinsic'] / 1_000:.0f} us besides its call; a signature takes 40, {signature:.1f} here; {seconds} s"
    )
    return ended(OUT, content, failures, line)


if __name__ == "__main__":
    sys.exit(main())
