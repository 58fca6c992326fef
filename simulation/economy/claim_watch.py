"""Claims beside the truth: their false items, the draws of these, and the ends of true and false claims.

Invariant: the expected number of drawn false items counts only claims whose draw happened. A dispute before the draw
ends on no beacon, so it does not distort the comparison.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.claims.claim_events import ClaimEnded, ClaimOpened, PointsDrawn
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.training.training_market import TrainingMarket
from simulation.actors import World
from simulation.replay.claim_deeds import false_items, index_at, is_liar

MARKETS = {
    InferenceMarket.index: "unit",
    TrainingMarket.index: "task",
    Capacity.index: "proof",
    Sessions.index: "session",
}
"""The subject of a claim, by its market."""
HONEST, TRUE, UNDRAWN, DRAWN = "honest", "liar's truth", "undrawn lie", "drawn lie"
FOUND, EXPECTED = "found", "expected, in millionths"
CONVICTED = frozenset(f"{subject}: {HONEST} {ClaimOutcome.REFUTED.name}" for subject in MARKETS.values())
"""The ends that an honest majority prevents."""
ENDS = tuple(
    f"{subject}: {truth} {outcome.name}"
    for subject in MARKETS.values()
    for truth, outcome in ((HONEST, ClaimOutcome.PASSED), (UNDRAWN, ClaimOutcome.PASSED), (DRAWN, ClaimOutcome.REFUTED))
)
"""The ends that a long run needs, for each market."""


@dataclass(frozen=True)
class Watched:
    """An open claim."""

    subject: str
    is_liars: bool
    """True if the provider lies, withholds or frames in some claims."""
    rate_ppm: int
    false: Collection[int]
    """The false items."""
    found: int | None = None
    """The drawn points in false items, or None before the draw."""


class ClaimWatch:
    """The open claims of a chain, with the truth about them."""

    def __init__(self) -> None:
        """Begin without claims."""
        self._claims: dict[bytes, Watched] = {}

    def follow(self, world: World, events: Iterable[Any], draws: Counter[str]) -> Iterator[str]:
        """Yield the ends of claims in a finished block. Count the drawn and the expected points in false items."""
        for event in events:
            if isinstance(event, ClaimOpened):
                claim = world.bound[ResultClaims].open_claim(event.claim)
                false = false_items(world, event.claim, claim)
                is_liars, rate_ppm = is_liar(world, claim.terms.provider), claim.terms.rate_ppm
                self._claims[event.claim] = Watched(MARKETS[event.handler], is_liars, rate_ppm, false)
            elif isinstance(event, PointsDrawn):
                claim, watched = world.bound[ResultClaims].open_claim(event.claim), self._claims[event.claim]
                found = sum(index_at(claim, point) in watched.false for point in event.points)
                self._claims[event.claim] = replace(watched, found=found)
            elif isinstance(event, ClaimEnded):
                watched = self._claims.pop(event.claim)
                _count_draw(watched, event.outcome, draws)
                yield f"{watched.subject}: {_truth_of(watched)} {event.outcome.name}"


def _truth_of(watched: Watched) -> str:
    if watched.false:
        return DRAWN if watched.found else UNDRAWN
    return TRUE if watched.is_liars else HONEST


def _count_draw(watched: Watched, outcome: ClaimOutcome, draws: Counter[str]) -> None:
    # Without drawn points, only a claim that has passed had its draw.
    if watched.found is not None or outcome is ClaimOutcome.PASSED:
        draws[f"{watched.subject}: {FOUND}"] += watched.found or 0
        draws[f"{watched.subject}: {EXPECTED}"] += len(watched.false) * watched.rate_ppm
