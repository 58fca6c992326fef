"""What comes of one chain of stakes, or of some interleavings, in a process of its own."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from simulation.runs import Counted, Stretch
from simulation.stakes.leaving import Interleaving, Leaving
from simulation.stakes.season import Season

SEASON_STEPS = 2_500
"""Of a chain: the denominators of the naive rule's fractions grow with its eras."""
LEAVING_TOGETHER = 25
"""Interleavings that a process plays before it tells."""


@dataclass
class Told(Counted):
    """What came of some chains."""

    greatest = frozenset({"furthest"})
    done: Counter[str] = field(default_factory=Counter)
    """Steps that succeeded, by name."""
    happened: Counter[str] = field(default_factory=Counter)
    """Events."""
    refused: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    chains: int = 0
    blocks: int = 0
    comparisons: int = 0
    """Of an amount with the naive rule's."""
    furthest: int = 0
    """Grains that anybody ever lacked of what the naive rule says."""
    seconds: float = 0.0
    """Of the processor."""
    problems: list[str] = field(default_factory=list)


def play(part: Stretch) -> Told:
    """Random steps on one chain; what it broke on, if it did, is told."""
    begun, season, problems = time.process_time(), Season(part.seed, part.number), list[str]()
    try:
        season.play(part.steps)
    except Exception as error:  # noqa: BLE001 - whatever comes out of an execution is a finding, and is told
        problems.append(part.told("stakes", error, f"block {season.chain.height}, step {season.steps}"))
    shadow = season.shadow
    return Told(
        season.done, season.happened, season.refused, season.errors, season.steps, 1, season.chain.height,
        shadow.comparisons, shadow.furthest, time.process_time() - begun, problems,
    )  # fmt: skip


def leave_all(cases: Sequence[Interleaving]) -> Told:
    """Some interleavings; what anybody escaped, or paid too much, is told."""
    told, begun = Told(), time.process_time()
    for case in cases:
        leaving = Leaving(case)
        try:
            leaving.play()
        except Exception as error:  # noqa: BLE001 - whatever comes out of an execution is a finding, and is told
            told.problems.append(f"{type(error).__name__}: {error}: {case}")
        told.done.update(leaving.did)
        told.chains += 1
        told.blocks += leaving.chain.height
        told.furthest = max(told.furthest, leaving.furthest)
    told.seconds = time.process_time() - begun
    return told


def together(cases: Sequence[Interleaving]) -> list[Sequence[Interleaving]]:
    """Interleavings, as many as one process plays before it tells."""
    return [cases[first : first + LEAVING_TOGETHER] for first in range(0, len(cases), LEAVING_TOGETHER)]
