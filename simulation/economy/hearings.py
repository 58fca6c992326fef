"""What the courts of a chain did, as a run counts it, and what it must have seen of them.

Always: all that is counted here is done by hooks; calls only say what a hook then reads.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.events import BenchDrawn, CaseEnded, CaseOpened, JudgeCharged
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.devices.events import ProviderUnregistered

CONVICTED, FINED, EXPELLED = "judge convicted", "judge fined", "registration ended"
SKIPPED = CaseOutcome.NOT_AUDITED
"""No case, so no event says that one ended."""
EXPECTED = (
    *(f"{kind.name} drawn" for kind in BenchKind),
    *(f"ended {outcome.name}" for outcome in CaseOutcome if outcome is not SKIPPED),
    CONVICTED,
    FINED,
    EXPELLED,
)
RARE = frozenset({"ended UNDECIDED", "ended APPEAL_WON", "ended APPEAL_UNDECIDED", EXPELLED})
"""What a run of two chains may not come to: liars and absent judges must meet in one court, or lie three times."""


def doings(of_hooks: Iterable[Any]) -> Iterator[str]:
    """What the courts did in a block, by the events of its hooks."""
    for event in of_hooks:
        if isinstance(event, CaseOpened):
            yield f"{event.kind.name} opened"
        elif isinstance(event, BenchDrawn):
            yield f"{BenchKind(event.bench).name} drawn"
        elif isinstance(event, CaseEnded):
            yield f"ended {event.outcome.name}"
        elif isinstance(event, JudgeCharged):
            yield CONVICTED if event.is_convicted else FINED
        elif isinstance(event, ProviderUnregistered):  # not asked for by a call: a court says so
            yield EXPELLED
