"""Stakes on shares beside the naive rule: random steps, delegators that leave during an offence, crowds.

Run as `python -m simulation.stakes [--steps 1000000] [--interleavings 1000] [--seed 1] [--season N] [--jobs 2]` (`make
stakes STEPS=1000000 INTERLEAVINGS=1000 SEED=1 SEASON=N JOBS=2`). It writes out/stakes.json.

It exits with 1 in each of these cases:

* An account exceeds the naive rule or escapes a slash.
* A grain is lost or made.
* A kind of step never occurred.
* A step costs over a tenth more with many delegators than with few.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.progress import Progress

from simulation.runs import Part, chosen_stretches, ended, in_turn, positive, run_parser, shown_progress
from simulation.stakes.crowds import COUNTS, ROUNDS, Backed, Compared, backed, compared, measure
from simulation.stakes.leaving import WAYS, interleavings
from simulation.stakes.season import KINDS
from simulation.stakes.seasons import SEASON_STEPS, Told, leave_all, play, together

MEASURED_AGAIN_MAX = 4
OUT = Path(__file__).parents[2] / "out" / "stakes.json"


APART_PERCENT_MAX = 10.0
"""The most by which the costs of a step with few and with many delegators may differ."""
LIVELY_FROM_STEPS = 20_000
"""A shorter run is judged by its comparisons alone."""
HAPPENING = ("EraStarted", "SlashHeld", "SlashTaken", "SlashRaised", "SlashCancelled", "TombstoneLifted", "Tombstoned")
"""Events that hooks or other accounts' calls cause."""


def lacks(told: Told) -> list[str]:
    """Return the kinds of steps that did not occur in a run. A short run has none."""
    if told.steps < LIVELY_FROM_STEPS:
        return []
    missing = [f"{name} never succeeds" for name in KINDS if not told.done[name]]
    missing += [f"{name} is never refused" for name in KINDS if not told.refused[name] and name != "bond_extra"]
    return missing + [f"{name} never happens" for name in HAPPENING if not told.happened[name]]


def lacks_leaving(told: Told, ways: Sequence[str]) -> list[str]:
    """Return the ways of leaving that never succeeded, and the kinds of slashes that never occurred."""
    return [f"nobody left: {way}" for way in ways if not told.done[way]] + [
        f"no slash was {name}" for name in ("taken", "raised") if not told.done[name]
    ]


def too_far_apart(steps: Sequence[Compared]) -> list[str]:
    """Return a sentence for each step that costs more with many delegators than with few."""
    return [
        f"{one.step} costs {one.apart_percent:.1f} % more with some crowds than with others"
        for one in steps
        if one.apart_percent > APART_PERCENT_MAX
    ]


def summary(told: Told, leaving: Told, crowds: Sequence[Backed], *, holds: bool) -> str:
    """Return one line of figures."""
    parts = [f"stakes {'hold' if holds else 'DO NOT HOLD'}:"]
    if told.chains:
        parts.append(
            f"{told.steps:,} steps on {told.chains} chains ({told.refused.total():,} refused with {len(told.errors)}"
            f" kinds of errors; {told.happened['EraStarted']:,} eras, {told.happened['SlashTaken']:,} slashes),"
            f" {told.comparisons:,} comparisons with the naive rule: {'' if told.problems else 'nobody above it, '}"
            f"{told.furthest} grains below at most;"
        )
    if leaving.chains:
        parts.append(
            f"{leaving.chains:,} interleavings of leaving and offending, {leaving.done['taken']:,} slashes"
            f" ({leaving.done['raised']:,} raises): {'none escapes' if not leaving.problems else 'ESCAPED'};"
        )
    if crowds:
        worst = max(compared(crowds), key=lambda one: one.apart_percent)
        counts = ", ".join(f"{crowd.count:,}" for crowd in crowds)
        parts.append(
            f"with {counts} delegators behind a validator a step costs the same within {worst.apart_percent:.1f} %"
            f" ({worst.step}), {crowds[-1].bytes_each:.0f} bytes of state each;"
        )
    return " ".join([*parts, f"{1_000 * told.seconds / max(1, told.steps):.2f} ms a step"])


def report(
    seed: int, told: Told, leaving: Told, crowds: Sequence[Backed], alone: Sequence[Backed], problems: list[str]
) -> dict[str, Any]:
    """Return the content of out/stakes.json. Times are in microseconds."""
    return {
        "seed": seed,
        "random_steps": _counted(told),
        "leaving": _counted(leaving),
        "crowds": _measured(crowds),
        "crowd_alone": _measured(alone),
        "problems": problems,
    }


def _measured(crowds: Sequence[Backed]) -> dict[str, Any]:
    steps = compared(crowds) if crowds else []
    return {
        "delegators": [crowd.count for crowd in crowds],
        "delegators_of_the_chain": [crowd.total for crowd in crowds],
        "entries_of_the_state": [len(crowd.chain.state.values) for crowd in crowds],
        "bytes_each": [round(crowd.bytes_each, 1) for crowd in crowds],
        "steps": [{**asdict(one), "apart_percent": round(one.apart_percent, 1)} for one in steps],
    }


def _counted(told: Told) -> dict[str, Any]:
    return {**told.told(), "seconds": round(told.seconds, 1)}


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
    """Return the results of all parts together."""
    told, bar = Told(), progress.add_task(f"stakes: {name}", total=len(parts))
    for one in in_turn(work, parts, jobs):
        told.add(one)
        progress.advance(bar)
    return told


def _crowds(progress: Progress, counts: Sequence[int], rounds: int) -> list[Backed]:
    """Return measured crowds: each count on a chain with as many delegators in total, and the smallest one alone."""
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
        # on a busy machine: more turns stabilise the median, and a really costlier step remains costlier
        progress.reset(bar, total=rounds)
    return crowds


if __name__ == "__main__":
    sys.exit(main())
