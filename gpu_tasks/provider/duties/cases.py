"""A provider's seat in a case and its next step, as a function of chain and journal."""

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
"""The journal's numbers of cases about tasks and leaves start here. Numbers of cases about units count attempts."""
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
    """A seat of this provider in a case about any subject."""

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
    def subject(self) -> dict[str, Detail]:
        """Telemetry's fields for the subject of the case."""
        return {"unit": self.id}


@dataclass(frozen=True, slots=True)
class Case(SeatedCase):
    """A seat in a case about a unit."""

    unit: Unit

    @property
    def key(self) -> tuple[bytes, int]:
        """The journal's key: a unit has one case an attempt, with each kind of bench once."""
        return self.id, case_number(self.unit.attempt, self.seat.bench)

    @property
    def posted_as(self) -> bytes:
        """The unit whose input is examined."""
        return self.id


@dataclass(frozen=True, slots=True)
class DisputedLeaf(Case):
    """A seat in a case about one leaf of a batch whose racers differ."""

    leaf: int

    @property
    def key(self) -> tuple[bytes, int]:
        """The journal's key: an attempt may have a case for each leaf."""
        # Attempt and leaf share one number of the journal, so each attempt has room for `REQUESTS_MAX` leaves.
        return self.id, TASK_CASES + case_number(self.unit.attempt * REQUESTS_MAX + self.leaf, self.seat.bench)


@dataclass(frozen=True, slots=True)
class LeafCase(Case):
    """A seat in a case about leaves of a batch that were shown or passed. `unit` is the batch."""

    batch: bytes
    check: LeafCheck

    @property
    def key(self) -> tuple[bytes, int]:
        """The journal's key: each case has its own id, and each kind of bench once."""
        return self.id, TASK_CASES + self.seat.bench

    @property
    def posted_as(self) -> bytes:
        """The batch whose input is examined."""
        return self.batch


def seated(judge_seat: SeatStatus) -> tuple[bytes, CourtCase, JudgeSeat, int, int]:
    """Return the fields of a `SeatedCase`."""
    status = judge_seat.status
    return judge_seat.id, status.case, judge_seat.seat, status.commits_until, status.opens_from


def case_number(attempt_number: int, bench: int) -> int:
    """Return the number of a seat among the possible seats of one unit."""
    return attempt_number * len(BenchKind) + bench


def attempt_of(number: int) -> int:
    """Return the attempt of the unit that a seat was about."""
    return number // len(BenchKind)


def is_sitting(judge_seat: SeatStatus) -> bool:
    """Return True if the seat is on the bench that judges at present."""
    court_case = judge_seat.status.case
    return (
        court_case.round is not None and bool(court_case.benches) and sitting(court_case).kind == judge_seat.seat.bench
    )


def must_give_up(case: Case, block_height: int) -> bool:
    """Return True if a missing input must be called unusable at block `block_height`, before commits close.

    An existing answer shows that the input was available, and a court may find it.
    """
    has_answer = any(claim.kind in (ClaimKind.ANSWERED, ClaimKind.WITHHELD) for claim in case.record.terms.claims)
    return not has_answer and 0 < case.commits_until <= block_height + GIVE_UP_BLOCKS


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
