"""Random steps over all calls of all pallets, failures, eras, slashes and misses: every grain in its place after each.

Run as `python -m scripts.economy [--steps 1000000] [--seed 1] [--season N]` with the tests' support on the path
(`make economy STEPS=1000000 SEED=1 SEASON=N`). Plays chains of 50,000 steps one after another, each by a seed of its
own, and writes out/economy.json. Exits with 1 when a book does not balance, when hooks weigh more than their budgets,
or when a run of 50,000 steps or more is too tame to show anything; a failure names the season that repeats it.
"""

import argparse
import json
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from genesis.chain import runtime_of
from genesis.presets import load_spec
from scripts.economy.figures import Tally, blind_spots, lacks, report, summary
from scripts.economy.season import Season

OUT = Path(__file__).parents[2] / "out" / "economy.json"
SEASON_STEPS = 50_000


def main() -> int:
    """Play, count, write, judge."""
    arguments = _arguments()
    begun, tally, problems = time.process_time(), Tally(), list[str]()
    chosen = [one for one in seasons(arguments.steps) if arguments.season in (None, one[0])]
    columns = (TextColumn("economy"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("steps", total=sum(steps for _, steps in chosen))
        for number, steps in chosen:
            season = Season(arguments.seed, number)
            try:
                season.play(steps, lambda made: progress.advance(bar, made))
            except Exception as error:  # noqa: BLE001 - whatever comes out of an execution is a finding, and is told
                problems.append(_told(error, season, arguments.seed, number))
            tally.add(season.tally)
    runtime = runtime_of(load_spec("local"))
    problems += blind_spots(runtime)
    if arguments.season is None and not problems:
        problems += lacks(tally, runtime)
    seconds = time.process_time() - begun
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(report(tally, arguments.seed, seconds, problems), indent=1) + "\n", encoding="utf-8")
    for problem in problems:
        print(f"economy: {problem}", file=sys.stderr)
    print(summary(tally, len(chosen), seconds, holds=not problems))
    return 1 if problems else 0


def seasons(steps: int) -> Iterator[tuple[int, int]]:
    """The chains that so many steps take: number and steps of each."""
    for number in range(-(-steps // SEASON_STEPS)):
        yield number, min(SEASON_STEPS, steps - number * SEASON_STEPS)


def _told(error: Exception, season: Season, seed: int, number: int) -> str:
    """What went wrong, where, and how to see it again."""
    traceback.print_exception(error)
    place = f"seed {seed}, season {number}, block {season.height}, after {season.tally.steps.total()} of its steps"
    return f"{place}: {type(error).__name__}: {error}; `make economy SEED={seed} SEASON={number}` repeats it"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.economy", description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=_positive, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--season", type=int, help="play this chain alone")
    arguments = parser.parse_args()
    last = -(-arguments.steps // SEASON_STEPS) - 1
    if arguments.season is not None and not 0 <= arguments.season <= last:
        parser.error(f"so many steps have the seasons 0 to {last}")
    return arguments


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least one step")
    return number


if __name__ == "__main__":
    sys.exit(main())
