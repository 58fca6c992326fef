"""Stakes on shares beside the naive rule, which visits everybody: random steps, leaving while somebody offends, crowds.

Run as `python -m simulation.stakes [--steps 1000000] [--interleavings 1000] [--seed 1] [--season N] [--jobs 2]` (`make
stakes STEPS=1000000 INTERLEAVINGS=1000 SEED=1 SEASON=N JOBS=2`). Writes out/stakes.json. Exits with 1 when somebody has
a grain more than the naive rule says or escapes a slash, when a grain is lost or made, when a step costs over a tenth
more with many delegators behind a validator than with few, or when a kind of step never happened.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.progress import Progress

from simulation.runs import Part, chosen_stretches, ended, in_turn, positive, run_parser, shown_progress
from simulation.stakes.crowds import COUNTS, ROUNDS, Backed, backed, compared, measure
from simulation.stakes.figures import lacks, lacks_leaving, report, summary, too_far_apart
from simulation.stakes.leaving import WAYS, interleavings
from simulation.stakes.seasons import SEASON_STEPS, Told, leave_all, play, together

MEASURED_AGAIN_MAX = 4
OUT = Path(__file__).parents[2] / "out" / "stakes.json"


def main() -> int:
    """Play, leave, measure, write, judge."""
    parser = run_parser("stakes", __doc__)
    parser.add_argument("--interleavings", type=positive, default=1_000)
    parser.add_argument("--counts", type=positive, nargs="+", default=COUNTS, help="delegators behind a validator")
    parser.add_argument("--rounds", type=positive, default=ROUNDS, help="how often each step is measured")
    arguments, crowds, alone = parser.parse_args(), list[Backed](), list[Backed]()
    chosen = chosen_stretches(parser, arguments, SEASON_STEPS)
    with shown_progress() as progress:
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
    content = report(arguments.seed, told, leaving, crowds, alone, problems)
    return ended(OUT, content, problems, summary(told, leaving, crowds, holds=not problems))


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


if __name__ == "__main__":
    sys.exit(main())
