"""Random steps over all calls of all pallets, failures, eras, slashes and misses: every grain in its place after each.

Run as `python -m simulation.economy [--steps 1000000] [--seed 1] [--season N] [--jobs 2]` (`make economy STEPS=1000000
SEED=1 SEASON=N JOBS=2`). Plays chains of 25,000 steps, `--jobs` at a time, each by a seed of its own, and writes
out/economy.json. Exits with 1 when a book does not balance, when hooks weigh more than their budgets, or when a run of
50,000 steps or more is too tame to show anything; a failure names the season that repeats it.
"""

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from genesis.chain import runtime_of
from genesis.presets import load_spec
from simulation.books import blind_spots
from simulation.catalogue import WORLDS
from simulation.economy.figures import Tally, lacks, report, summary
from simulation.economy.seasons import parts, play_all

OUT = Path(__file__).parents[2] / "out" / "economy.json"


def main() -> int:
    """Play, count, write, judge."""
    arguments = _arguments()
    tally, problems, seconds = Tally(), list[str](), 0.0
    chosen = [part for part in parts(arguments.seed, arguments.steps) if arguments.season in (None, part.number)]
    columns = (TextColumn("economy"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("steps", total=sum(part.steps for part in chosen))
        for played in play_all(chosen, arguments.jobs, lambda made: progress.advance(bar, made)):
            tally.add(played.tally)
            seconds += played.seconds
            problems += [] if played.problem is None else [played.problem]
    runtime = runtime_of(load_spec("local"))
    problems += blind_spots(runtime, WORLDS)
    if arguments.season is None and not problems:
        problems += lacks(tally, runtime)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(report(tally, arguments.seed, seconds, problems), indent=1) + "\n", encoding="utf-8")
    for problem in problems:
        print(f"economy: {problem}", file=sys.stderr)
    print(summary(tally, len(chosen), seconds, holds=not problems))
    return 1 if problems else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m simulation.economy", description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=_positive, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--season", type=int, help="play this chain alone")
    parser.add_argument("--jobs", type=_positive, default=1, help="chains at a time, each in a process of its own")
    arguments = parser.parse_args()
    seasons = len(list(parts(arguments.seed, arguments.steps)))
    if arguments.season is not None and not 0 <= arguments.season < seasons:
        parser.error(f"so many steps have the seasons 0 to {seasons - 1}")
    return arguments


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
