"""What final blocks and daemons say of one batch whose racers differ: heights, amounts, tokens. As values.

Always: heights are of final blocks; tokens are those that are read and written, together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gpu_tasks.market.courts.events import CaseEnded, CaseOpened, OpinionOpened
from gpu_tasks.market.inference.events import ProviderSlashed, UnitDisputed, UnitRefunded, UnitRequeued, UnitSettled
from gpu_tasks.market.leaf_disputes.events import LeafDisputed, NodesAsked, NodesShown, TreeWithheld

JUDGED = ("verified", "refuted", "recomputed")
"""What a judge's daemon tells when it has computed something of a unit."""


@dataclass(slots=True)
class DisputeTrace:
    """One batch, from its dispute to its end."""

    unit: bytes
    closed_at: int = 0
    """The last block in which a commit counted."""
    disputed_at: int = 0
    asked: list[tuple[int, NodesAsked]] = field(default_factory=list)
    shown: list[tuple[int, NodesShown]] = field(default_factory=list)
    withheld: list[tuple[int, TreeWithheld]] = field(default_factory=list)
    leaves: list[tuple[int, LeafDisputed]] = field(default_factory=list)
    cases: int = 0
    opinions: list[OpinionOpened] = field(default_factory=list)
    ended_cases: list[int] = field(default_factory=list)
    slashes: list[ProviderSlashed] = field(default_factory=list)
    settled: list[tuple[int, UnitSettled]] = field(default_factory=list)
    ended_at: int = 0
    """Settled, refunded, or back in the queue."""
    collaterals: dict[bytes, int] = field(default_factory=dict)
    """What each racer held for the batch when it was disputed."""
    leaf_tokens: int = 0
    """Of the leaf that was judged, as who was paid has it."""
    batch_tokens: int = 0
    """Of all leaves."""
    returned_at: int = 0
    """The block after which the honest daemon was started again; 0 if it was not killed."""
    why: str | None = None
    """What `ogpu show` says to its customer while a side has not shown its tree."""
    to_show: list[dict[str, Any]] | None = None
    """The disputes that `ogpu-provider status` lists for the honest provider then; None where nobody asked."""
    computed: list[dict[str, Any]] = field(default_factory=list)
    """What daemons told of computing as judges of it."""

    def take(self, height: int, event: object) -> None:
        """One event of the block at that height, of whatever unit."""
        if isinstance(event, CaseOpened | OpinionOpened | CaseEnded):
            if event.case == self.unit:
                self._judge(height, event)
        elif getattr(event, "unit", None) == self.unit:
            self._note(height, event)

    def _judge(self, height: int, event: CaseOpened | OpinionOpened | CaseEnded) -> None:
        match event:
            case CaseOpened():
                self.cases += 1
            case OpinionOpened():
                self.opinions.append(event)
            case CaseEnded():
                self.ended_cases.append(height)

    def _note(self, height: int, event: object) -> None:
        match event:
            case UnitDisputed():
                self.disputed_at = height
            case NodesAsked():
                self.asked.append((height, event))
            case NodesShown():
                self.shown.append((height, event))
            case TreeWithheld():
                self.withheld.append((height, event))
            case LeafDisputed():
                self.leaves.append((height, event))
            case ProviderSlashed():
                self.slashes.append(event)
            case UnitSettled():
                self.settled.append((height, event))
                self.ended_at = height
            case UnitRefunded() | UnitRequeued():
                self.ended_at = height
            case _:
                pass


def computed_of(unit: bytes, lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a daemon told of computing as a judge of a unit."""
    return [line for line in lines if line["event"] in JUDGED and line.get("unit") == unit.hex()]
