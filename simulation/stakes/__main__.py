"""Stakes on shares beside the naive rule, which visits everybody: random steps, leaving while somebody offends, crowds.

Run as `python -m simulation.stakes [--steps 1000000] [--interleavings 1000] [--seed 1] [--season N] [--jobs 2]` (`make
stakes STEPS=1000000 INTERLEAVINGS=1000 SEED=1 SEASON=N JOBS=2`). Writes out/stakes.json. Exits with 1 when somebody has
a grain more than the naive rule says or escapes a slash, when a grain is lost or made, when a step costs over a tenth
more with many delegators behind a validator than with few, or when a kind of step never happened.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from simulation.stakes.crowds import COUNTS, ROUNDS, Backed, backed, compared, measure
from simulation.stakes.figures import lacks, lacks_leaving, report, summary, too_far_apart
from simulation.stakes.leaving import WAYS, interleavings
from simulation.stakes.seasons import Part, Told, in_turn, leave_all, play, stretches, together

MEASURED_AGAIN_MAX = 4
OUT = Path(__file__).parents[2] / "out" / "stakes.json"


def main() -> int:
    """Play, leave, measure, write, judge."""
    arguments, crowds, alone = _arguments(), list[Backed](), list[Backed]()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:
        chosen = [
            part for part in stretches(arguments.seed, arguments.steps) if arguments.season in (None, part.number)
        ]
        told = _all_of(progress, "steps", play, chosen, arguments.jobs)
        leaving, is_whole = Told(), arguments.season is None
        if is_whole:
            cases = together(interleavings(arguments.seed, arguments.interleavings))
            leaving = _all_of(progress, "leaving", leave_all, cases, arguments.jobs)
            *crowds, small = _crowds(progress, arguments.counts, arguments.rounds)
            alone = [small]
    problems = told.problems + leaving.problems
    if is_whole and not problems:
        problems += [*lacks(told), *lacks_leaving(leaving, list(WAYS)), *too_far_apart(compared(crowds))]
    OUT.parent.mkdir(exist_ok=True)
    content = report(arguments.seed, told, leaving, crowds, alone, problems)
    OUT.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for problem in problems:
        print(f"stakes: {problem}", file=sys.stderr)
    print(summary(told, leaving, crowds, holds=not problems))
    return 1 if problems else 0


def _all_of(progress: Progress, name: str, work: Callable[[Part], Told], parts: Sequence[Part], jobs: int) -> Told:
    """What came of all parts together."""
    told, bar = Told(), progress.add_task(f"stakes: {name}", total=len(parts))
    for one in in_turn(work, parts, jobs):
        told.add(one)
        progress.advance(bar)
    return told


def _crowds(progress: Progress, counts: Sequence[int], rounds: int) -> list[Backed]:
    """So many behind a validator, as many on each chain; and the fewest alone."""
    sizes = [*((count, max(counts)) for count in counts), (min(counts), min(counts))]
    bar = progress.add_task("stakes: crowds", total=len(sizes) + rounds)
    crowds = []
    for count, total in sizes:
        crowds.append(backed(count, total))
        progress.advance(bar)
    for _ in range(MEASURED_AGAIN_MAX):
        measure(crowds, rounds, lambda: progress.advance(bar))
        if not too_far_apart(compared(crowds[:-1])):
            break
        # on a busy machine: more turns make a median firmer, and what is really dearer stays so
        progress.reset(bar, total=rounds)
    return crowds


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m simulation.stakes", description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=_positive, default=1_000_000)
    parser.add_argument("--interleavings", type=_positive, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--season", type=int, help="play this chain of random steps alone")
    parser.add_argument("--jobs", type=_positive, default=1, help="chains at a time, each in a process of its own")
    parser.add_argument("--counts", type=_positive, nargs="+", default=COUNTS, help="delegators behind a validator")
    parser.add_argument("--rounds", type=_positive, default=ROUNDS, help="how often each step is measured")
    arguments = parser.parse_args()
    seasons = len(stretches(arguments.seed, arguments.steps))
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
