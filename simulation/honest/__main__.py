"""Honest parties in random units and tasks over several backends: none may lose its collateral or stay silent.

Run as `python -m simulation.honest [--units 50000] [--tasks 50000] [--flips 1000] [--seed 1] [--jobs 1]` (`make
honest`). It writes out/honest.json, and exits with 1 if an honest party was slashed or silent, or if a bar of the run
does not hold. A failure names its case, which `--case` repeats.

* *From the program:* requests, backends, the race from its input to its attestation, the run of a task, journals,
  folders, deliveries, checks, samples, votes, and the chain's rules that draw points, compare, decide and convict.
* *Simulated:* the chain, whose records calls change at once. No auction, no race between providers, no later leg of a
  task, no window that ends. The network is function calls. A process is an object, and a kill drops it with all its
  memory. Only files stay, in a file system in memory where the machine has one, so power cuts are not part of it.
* *Apart:* cases in which one bit of an array of the computation flips. Their party is not honest hardware, and pays.
"""

import argparse
import sys
from pathlib import Path

from simulation.honest.parts import FLIP, TASK, UNIT, Part, parts_of, play
from simulation.honest.play import Tally
from simulation.honest.work import backends_here
from simulation.runs import ended, in_turn, positive, shown_progress

OUT = Path(__file__).parents[2] / "out" / "honest.json"


def problems_of(tally: Tally, kinds: int) -> list[str]:
    """Return the failures, and the bars of the run that do not hold."""
    found = list(tally.failures)
    backends = len(backends_here())
    if len(tally.pairs) < backends**2:
        found.append(f"only {len(tally.pairs)} of {backends**2} pairs of backends met")
    if len(tally.cases) < kinds:
        found.append(f"only {len(tally.cases)} of {kinds} kinds of work were played")
    if not tally.events["kills"]:
        found.append("no process was killed")
    return found


def summary(tally: Tally, seconds: float) -> str:
    """Return the line of figures."""
    honest, flips = sum(tally.cases.values()), sum(tally.flips.values())
    units = sum(number for name, number in tally.cases.items() if name.endswith("units"))
    events = tally.events
    paid = ", ".join(f"{number} {name}" for name, number in sorted(tally.flips.items()))
    lost = sum(number for name, number in events.items() if name.startswith("lost"))
    return (
        f"honest: {len(tally.failures)} honest parties slashed or silent in {units:,} units and {honest - units:,} "
        f"tasks over {', '.join(backends_here())}: {events['checks']:,} checks of {events['points']:,} points, "
        f"{events['votes']:,} votes, {events['kills']:,} kills, {lost:,} lost files; "
        f"apart, {flips:,} flipped bits ({paid or 'none'}); {seconds:,.0f} s of CPU"
    )


def main() -> int:
    """Play, count, write, judge."""
    parser = argparse.ArgumentParser(prog="python -m simulation.honest", description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=50_000)
    parser.add_argument("--tasks", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=positive, default=1, help="parts at a time, each in a process of its own")
    parser.add_argument("--flips", type=int, default=1_000, help="cases with a flipped bit, apart")
    parser.add_argument("--case", metavar="KIND/SEED/NUMBER", help="play this case alone")
    options = parser.parse_args()
    if options.case:
        kind, seed, number = options.case.split("/")
        tally = play(Part(int(seed), kind, int(number), 1)).tally
        return ended(OUT, {**vars(tally)}, tally.failures, f"honest: {len(tally.failures)} failures in 1 case")
    counts = {UNIT: options.units, TASK: options.tasks, FLIP: options.flips}
    parts, tally, seconds = list(parts_of(options.seed, counts)), Tally(), 0.0
    with shown_progress() as progress:
        bar = progress.add_task("honest", total=sum(part.count for part in parts))
        for part, played in zip(parts, in_turn(play, parts, options.jobs), strict=True):
            tally.add(played.tally)
            seconds += played.seconds
            progress.advance(bar, part.count)
    problems = problems_of(tally, 7)
    content = {"seed": options.seed, "counts": counts, "cpu_seconds": round(seconds), **vars(tally)}
    return ended(OUT, content, problems, summary(tally, seconds))


if __name__ == "__main__":
    sys.exit(main())
