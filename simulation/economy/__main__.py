"""Random steps over all calls of all pallets, failures, eras, slashes and misses: every grain accounted for.

Run as `python -m simulation.economy [--steps 1000000] [--seed 1] [--season N] [--jobs 2]` (`make economy STEPS=1000000
SEED=1 SEASON=N JOBS=2`). It plays chains of 25,000 steps, `--jobs` at a time, each with its own seed, and writes
out/economy.json.

It exits with 1 if a book does not balance, if hooks weigh more than their budgets, or if a run of 50,000 steps or more
covers too little to prove anything. A failure names the season that repeats it.
"""

import sys
from pathlib import Path

from genesis.chain import runtime_of
from genesis.presets import load_spec
from simulation.books import blind_spots
from simulation.catalogue import WORLDS
from simulation.economy.figures import Tally, lacks, report, summary
from simulation.economy.season import SEASON_STEPS, play
from simulation.runs import chosen_stretches, ended, in_turn, run_parser, shown_progress

OUT = Path(__file__).parents[2] / "out" / "economy.json"


def main() -> int:
    """Play, count, write, judge."""
    parser = run_parser("economy", __doc__)
    options = parser.parse_args()
    chosen, tally, problems, seconds = chosen_stretches(parser, options, SEASON_STEPS), Tally(), list[str](), 0.0
    with shown_progress() as progress:
        bar = progress.add_task("economy", total=sum(part.steps for part in chosen))
        for played in in_turn(play, chosen, options.jobs):
            tally.add(played.tally)
            progress.advance(bar, played.tally.steps.total())
            seconds += played.seconds
            problems += [] if played.problem is None else [played.problem]
    runtime = runtime_of(load_spec("local"))
    problems += blind_spots(runtime, WORLDS)
    if options.season is None and not problems:
        problems += lacks(tally, runtime)
    line = summary(tally, len(chosen), seconds, holds=not problems)
    return ended(OUT, report(tally, options.seed, seconds, problems), problems, line)


if __name__ == "__main__":
    sys.exit(main())
