"""What final blocks say of one batch that is checked by its leaves: heights, words, amounts. As values.

Always: heights are of final blocks; an event counts that names the batch, or a case about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpu_tasks.market.courts.events import CaseEnded, CaseOpened, JudgeCharged, OpinionOpened
from gpu_tasks.market.inference.events import (
    ProviderSlashed,
    RaceMissed,
    UnitDisputed,
    UnitMatched,
    UnitRefunded,
    UnitRequeued,
    UnitSettled,
)
from gpu_tasks.market.leaf_checks.checks import CheckTerms, ShownLeaf, check_case
from gpu_tasks.market.leaf_checks.events import (
    AuditorDrawn,
    AuditorSilent,
    LeafCheckEnded,
    LeafDoubted,
    LeavesDrawn,
    LeavesPassed,
    LeavesShown,
)
from runtime.pallets.staking.trust_lock import Locked, Paid, Unlocked

CASES_MAX = 8
"""Of a check: of three auditors each may pass and be looked at, or doubt; then the customer."""
HoldEvent = Locked | Unlocked | Paid


@dataclass(slots=True)
class CheckCase:
    """One case about a leaf, or about what an auditor passed with."""

    opinions: list[OpinionOpened] = field(default_factory=list)
    ended: CaseEnded | None = None
    ended_at: int = 0


@dataclass(slots=True)
class CheckTrace:
    """One batch, from its draw to the end of its check."""

    unit: bytes
    racers: tuple[bytes, ...] = ()
    settled: list[tuple[int, UnitSettled]] = field(default_factory=list)
    terms: CheckTerms | None = None
    """Of the check, as the chain has them when leaves are drawn."""
    drawn: LeavesDrawn | None = None
    shown_by: list[LeavesShown] = field(default_factory=list)
    shown: tuple[ShownLeaf, ...] = ()
    """The drawn leaves, as the chain took them."""
    auditors: list[bytes] = field(default_factory=list)
    passed: dict[bytes, bytes] = field(default_factory=dict)
    """With what each auditor passed that did."""
    doubts: list[LeafDoubted] = field(default_factory=list)
    watched: dict[bytes, bytes] = field(default_factory=dict)
    """The case of each auditor whose proof the courts looked at."""
    cases: dict[bytes, CheckCase] = field(default_factory=dict)
    slashes: list[ProviderSlashed] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    """What no scene has: a race that was missed, a dispute, somebody silent, a judge that pays."""
    moved: list[tuple[int, HoldEvent]] = field(default_factory=list)
    ended: LeafCheckEnded | None = None
    ended_at: int = 0

    def take(self, height: int, event: object) -> None:
        """One event of the block at that height, of whatever unit."""
        about = getattr(event, "unit", None) or getattr(event, "case", None)
        if about != self.unit and about not in self._own_cases():
            return
        if isinstance(event, Locked | Unlocked | Paid):
            self.moved.append((height, event))
        else:
            self._race(height, event)
            self._check(height, event)
            self._judge(height, event)

    def _own_cases(self) -> tuple[bytes, ...]:
        return tuple(check_case(self.unit, number) for number in range(CASES_MAX))

    def _race(self, height: int, event: object) -> None:
        match event:
            case UnitMatched():
                self.racers = event.racers
            case UnitSettled():
                self.settled.append((height, event))
            case ProviderSlashed():
                self.slashes.append(event)
            case RaceMissed() | UnitRequeued() | UnitRefunded() | UnitDisputed() | AuditorSilent() | JudgeCharged():
                self.unexpected.append(f"{type(event).__name__} in block {height}")
            case _:
                pass

    def _check(self, height: int, event: object) -> None:
        match event:
            case LeavesDrawn():
                self.drawn = event
            case LeavesShown():
                self.shown_by.append(event)
            case AuditorDrawn():
                self.auditors.append(event.auditor)
            case LeavesPassed():
                self.passed[event.auditor] = event.proof
            case LeafDoubted():
                self.doubts.append(event)
            case LeafCheckEnded():
                self.ended, self.ended_at = event, height
            case _:
                pass

    def _judge(self, height: int, event: object) -> None:
        match event:
            case CaseOpened():
                self.cases[event.case] = CheckCase()
                if not self.doubts or self.doubts[-1].case != event.case:
                    self.watched[self.auditors[-1]] = event.case
            case OpinionOpened():
                self.cases[event.case].opinions.append(event)
            case CaseEnded():
                self.cases[event.case].ended, self.cases[event.case].ended_at = event, height
            case _:
                pass
