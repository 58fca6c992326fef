"""A seat of a court as its provider sees it, and what to do next about it: a function of chain and journal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto

from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import ClaimKind, CourtCase, JudgeSeat, sitting
from gpu_tasks.market.courts.courts_api import SeatStatus
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.market.leaf_checks.checks import LeafCheck
from gpu_tasks.provider.journal.records import CaseEntry
from gpu_tasks.provider.telemetry import Detail

TASK_CASES = 1 << 31
"""The journal's numbers of seats in cases about tasks and leaves begin here: those about units count attempts."""
GIVE_UP_BLOCKS = 6
"""So many blocks before commits close, an input that nobody has is one that cannot be used."""


class JudgeStep(Enum):
    """What to do next about a case."""

    NOTHING = auto()
    JUDGE = auto()
    COMMIT = auto()
    OPEN = auto()
    APPEAL = auto()


class Lacking(Enum):
    """What a judge waits for, that others have."""

    NOTHING = auto()
    INPUT = auto()
    STATES = auto()


@dataclass(slots=True)
class Search:
    """Where a judge is in a case: it is given up for want of what others have, never for want of speed."""

    lacks: Lacking = Lacking.NOTHING


@dataclass(frozen=True, slots=True)
class SeatedCase(ABC):
    """One seat that this provider has in a case, whatever that is about."""

    id: bytes
    record: CourtCase
    seat: JudgeSeat
    commits_until: int
    opens_from: int
    """The block from which opinions are opened; 0 if that is not known yet."""

    @property
    @abstractmethod
    def key(self) -> tuple[bytes, int]:
        """How the journal names the seat."""

    @property
    def subject(self) -> dict[str, Detail]:
        """How telemetry names what the case is about."""
        return {"unit": self.id}


@dataclass(frozen=True, slots=True)
class Case(SeatedCase):
    """A seat in a case about a unit."""

    unit: Unit

    @property
    def key(self) -> tuple[bytes, int]:
        """How the journal names it: a unit has one case an attempt, and that each kind of bench once."""
        return self.id, case_number(self.unit.attempt, self.seat.bench)

    @property
    def posted_as(self) -> bytes:
        """The unit whose input is looked at."""
        return self.id


@dataclass(frozen=True, slots=True)
class DisputedLeaf(Case):
    """A seat in a case about one leaf of a batch whose racers differ."""

    leaf: int

    @property
    def key(self) -> tuple[bytes, int]:
        """How the journal names it: an attempt may have a case for each leaf."""
        return self.id, TASK_CASES + case_number(self.unit.attempt * REQUESTS_MAX + self.leaf, self.seat.bench)


@dataclass(frozen=True, slots=True)
class LeafCase(Case):
    """A seat in a case about the leaves of a batch that were shown, or passed: `unit` is the batch."""

    batch: bytes
    check: LeafCheck

    @property
    def key(self) -> tuple[bytes, int]:
        """How the journal names it: a case of its own, which has each kind of bench once."""
        return self.id, TASK_CASES + self.seat.bench

    @property
    def posted_as(self) -> bytes:
        """The batch whose input is looked at."""
        return self.batch


def seated(seat: SeatStatus) -> tuple[bytes, CourtCase, JudgeSeat, int, int]:
    """Return the fields of a `SeatedCase`."""
    status = seat.status
    return seat.id, status.case, seat.seat, status.commits_until, status.opens_from


def case_number(attempt: int, bench: int) -> int:
    """The number of a seat among those that one unit may give."""
    return attempt * len(BenchKind) + bench


def attempt_of(number: int) -> int:
    """Which attempt at its unit a seat was about."""
    return number // len(BenchKind)


def is_sitting(seat: SeatStatus) -> bool:
    """Whether the seat is on the bench that judges now."""
    case = seat.status.case
    return case.round is not None and bool(case.benches) and sitting(case).kind == seat.seat.bench


def must_give_up(case: Case, height: int) -> bool:
    """Whether an input that is nowhere to be had by block `height` has to be called unusable, or commits close.

    Not where somebody answered: that it could be had is shown then, and a court may find it.
    """
    has_answer = any(claim.kind in (ClaimKind.ANSWERED, ClaimKind.WITHHELD) for claim in case.record.terms.claims)
    return not has_answer and 0 < case.commits_until <= height + GIVE_UP_BLOCKS


def next_step(case: SeatedCase, entry: CaseEntry | None) -> JudgeStep:
    """What chain and journal ask for."""
    is_closed = case.record.round is None or case.record.round.closed_at > 0
    if case.seat.statement is not None:
        return JudgeStep.NOTHING
    if case.seat.commitment is None:
        if is_closed:
            return JudgeStep.NOTHING
        return JudgeStep.JUDGE if entry is None else JudgeStep.COMMIT
    return JudgeStep.OPEN if entry is not None and case.opens_from else JudgeStep.NOTHING
