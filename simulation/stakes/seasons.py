"""The results of one chain of stakes, or of some interleavings, in its own process."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from simulation.runs import Counted, Stretch
from simulation.stakes.leaving import Interleaving, Leaving
from simulation.stakes.season import Season

SEASON_STEPS = 2_500
"""The steps of a chain. The denominators of the naive rule's fractions grow with its eras."""
LEAVING_TOGETHER = 25
"""Interleavings that a process plays before it reports."""


@dataclass
class Told(Counted):
    """Results of some chains."""

    greatest = frozenset({"furthest"})
    done: Counter[str] = field(default_factory=Counter)
    """Successful steps, by name."""
    happened: Counter[str] = field(default_factory=Counter)
    """Events, by name."""
    refused: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    chains: int = 0
    blocks: int = 0
    comparisons: int = 0
    """Comparisons of an amount with the naive rule's."""
    furthest: int = 0
    """The largest difference of an amount below the naive rule, in grains."""
    seconds: float = 0.0
    """CPU seconds."""
    problems: list[str] = field(default_factory=list)


def play(part: Stretch) -> Told:
    """Play random steps on one chain, and record its failure."""
    begun, season, problems = time.process_time(), Season(part.seed, part.number), list[str]()
    try:
        season.play(part.steps)
    except Exception as error:  # noqa: BLE001  # every exception of an execution is a finding
        problems.append(part.told("stakes", error, f"block {season.chain.height}, step {season.steps}"))
    shadow = season.shadow
    return Told(
        season.done, season.happened, season.refused, season.errors, season.steps, 1, season.chain.height,
        shadow.comparisons, shadow.furthest, time.process_time() - begun, problems,
    )  # fmt: skip


def leave_all(cases: Sequence[Interleaving]) -> Told:
    """Play some interleavings, and record escapes and overpayments."""
    told, begun = Told(), time.process_time()
    for case in cases:
        leaving = Leaving(case)
        try:
            leaving.play()
        except Exception as error:  # noqa: BLE001  # every exception of an execution is a finding
            told.problems.append(f"{type(error).__name__}: {error}: {case}")
        told.done.update(leaving.did)
        told.chains += 1
        told.blocks += leaving.chain.height
        told.furthest = max(told.furthest, leaving.furthest)
    told.seconds = time.process_time() - begun
    return told


def together(cases: Sequence[Interleaving]) -> list[Sequence[Interleaving]]:
    """Return the interleavings in groups for one process each."""
    return [cases[first : first + LEAVING_TOGETHER] for first in range(0, len(cases), LEAVING_TOGETHER)]
