"""A provider's seat in a case and its next step, as a function of chain and journal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto

from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import CourtCase, JudgeSeat, sitting
from gpu_tasks.market.courts.courts_api import SeatStatus
from gpu_tasks.provider.journal.records import CaseEntry
from gpu_tasks.provider.telemetry import Detail

FIRST_CASE = 1 << 31
"""The journal's numbers of cases start here."""
GIVE_UP_BLOCKS = 6
"""This many blocks before commits close, an unavailable input counts as unusable."""


class JudgeStep(Enum):
    """The next step of a case."""

    NOTHING = auto()
    JUDGE = auto()
    COMMIT = auto()
    OPEN = auto()
    APPEAL = auto()


class Lacking(Enum):
    """The missing data that a judge waits for and others hold."""

    NOTHING = auto()
    INPUT = auto()
    STATES = auto()


@dataclass(slots=True)
class Search:
    """A judge's progress in a case. A judge gives up only for missing data of others, never for its own slowness."""

    lacks: Lacking = Lacking.NOTHING


@dataclass(frozen=True, slots=True)
class SeatedCase(ABC):
    """A seat of this provider in a case."""

    id: bytes
    record: CourtCase
    seat: JudgeSeat
    commits_until: int
    opens_from: int
    """The first block for opening opinions; 0 if not known yet."""

    @property
    @abstractmethod
    def key(self) -> tuple[bytes, int]:
        """The journal's key of the seat."""

    @property
    @abstractmethod
    def subject(self) -> dict[str, Detail]:
        """Telemetry's fields for the subject of the case."""


def seated(judge_seat: SeatStatus) -> tuple[bytes, CourtCase, JudgeSeat, int, int]:
    """Return the fields of a `SeatedCase`."""
    status = judge_seat.status
    return judge_seat.id, status.case, judge_seat.seat, status.commits_until, status.opens_from


def case_number(drawn_at: int, bench: int) -> int:
    """Return the journal's number of a seat on a bench drawn in block `drawn_at`."""
    return FIRST_CASE + drawn_at * len(BenchKind) + bench


def is_sitting(judge_seat: SeatStatus) -> bool:
    """Return True if the seat is on the bench that judges at present."""
    court_case = judge_seat.status.case
    return (
        court_case.round is not None and bool(court_case.benches) and sitting(court_case).kind == judge_seat.seat.bench
    )


def next_step(case: SeatedCase, case_entry: CaseEntry | None) -> JudgeStep:
    """Return the next step for the state of chain and journal."""
    is_closed = case.record.round is None or case.record.round.closed_at > 0
    if case.seat.statement is not None:
        return JudgeStep.NOTHING
    if case.seat.commitment is None:
        # A commitment after the close would be refused, so the judge stays silent.
        if is_closed:
            return JudgeStep.NOTHING
        return JudgeStep.JUDGE if case_entry is None else JudgeStep.COMMIT
    # Without the journal's entry the salt is lost, and no opening could match the commitment.
    return JudgeStep.OPEN if case_entry is not None and case.opens_from else JudgeStep.NOTHING
