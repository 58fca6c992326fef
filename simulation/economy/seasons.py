"""Chains one after another, or several at a time in processes of their own: the same figures, in the same order.

Always: a chain depends on its seed and number alone, so it matters to none how many are played beside it.
"""

import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from simulation.economy.figures import Tally
from simulation.economy.season import Season

SEASON_STEPS = 25_000
"""Of a chain: a run of twice as many plays one with enough validators for courts, and one with too few."""


@dataclass(frozen=True)
class Part:
    """One chain of a run."""

    seed: int
    number: int
    steps: int


@dataclass(frozen=True)
class Played:
    """What came of it."""

    tally: Tally
    seconds: float
    """Of the processor."""
    problem: str | None
    """What went wrong, where, and how to see it again."""


def parts(seed: int, steps: int) -> Iterator[Part]:
    """The chains that so many steps take."""
    for number in range(-(-steps // SEASON_STEPS)):
        yield Part(seed, number, min(SEASON_STEPS, steps - number * SEASON_STEPS))


def play_all(chosen: Sequence[Part], jobs: int, on_steps: Callable[[int], None]) -> Iterator[Played]:
    """Play some chains, `jobs` of them at a time; `on_steps` hears how many steps were made."""
    if min(jobs, len(chosen)) < 2:
        for part in chosen:
            yield play(part, on_steps)
        return
    # spawned: this process may have threads, which a forked one would lack
    with ProcessPoolExecutor(min(jobs, len(chosen)), multiprocessing.get_context("spawn")) as processes:
        for played in processes.map(play, chosen):
            on_steps(played.tally.steps.total())
            yield played


def play(part: Part, on_steps: Callable[[int], None] = lambda _: None) -> Played:
    """Play a chain; what it broke on, if it did, is told."""
    begun = time.process_time()
    season, problem = Season(part.seed, part.number), None
    try:
        season.play(part.steps, on_steps)
    except Exception as error:  # noqa: BLE001 - whatever comes out of an execution is a finding, and is told
        traceback.print_exception(error)
        problem = _told(error, season, part)
    return Played(season.tally, time.process_time() - begun, problem)


def _told(error: Exception, season: Season, part: Part) -> str:
    place = f"seed {part.seed}, season {part.number}, block {season.height}"
    after = f"after {season.tally.steps.total()} of its steps"
    again = f"`make economy SEED={part.seed} SEASON={part.number}` repeats it"
    return f"{place}, {after}: {type(error).__name__}: {error}; {again}"
