"""`CourtsApi`: queries of judges, parties and explorers about cases and seats, for any handler."""

from typing import Annotated

from gpu_tasks.market import rounds
from gpu_tasks.market.courts.cases import COURT_SEATS_MAX, EARLIER_JUDGES_MAX, CourtCase, JudgeSeat, judges_of
from gpu_tasks.market.courts.courts import Courts
from runtime.encoding.codec import Bounded, struct
from runtime.encoding.types import AccountId, BlockNumber, Hash
from runtime.frame.api import RuntimeApi, query
from runtime.pallets.beacon import Beacon
from runtime.pallets.system import System

JUDGES_MAX = EARLIER_JUDGES_MAX + COURT_SEATS_MAX
SEATS_SHOWN_MAX = 1_024
"""The most seats in one answer, by ascending case. Each holds free grains of its judge, so few judges have many."""


@struct
class CaseStatus:
    """An open case with the clocks of its bench. Heights are 0 where a clock does not run."""

    case: CourtCase
    commits_until: BlockNumber
    opens_from: BlockNumber
    opens_until: BlockNumber


@struct
class SeatStatus:
    """A judge's seat, with its case."""

    id: Hash
    seat: JudgeSeat
    status: CaseStatus


class CourtsApi(RuntimeApi, version=1):
    """Cases and seats."""

    @query
    def case(self, case_id: Hash) -> CaseStatus | None:
        """Return a case while it is open, or None."""
        found = self.bound[Courts].cases[case_id]
        return None if found is None else self._status(found)

    @query
    def seats(self, stash: AccountId) -> Annotated[tuple[SeatStatus, ...], Bounded(SEATS_SHOWN_MAX)]:
        """Return the open cases that a validator judges or has judged, by ascending case."""
        courts, found = self.bound[Courts], []
        for case_id, seat in sorted(courts.seats.under(stash))[:SEATS_SHOWN_MAX]:
            case = courts.cases[case_id]
            if seat is not None and case is not None:
                found.append(SeatStatus(case_id, seat, self._status(case)))
        return tuple(found)

    @query
    def judges(self, case_id: Hash) -> Annotated[tuple[tuple[AccountId, JudgeSeat], ...], Bounded(JUDGES_MAX)]:
        """Return all judges of a case with their seats, in order of benches and draws."""
        courts = self.bound[Courts]
        found = courts.cases[case_id]
        named = ((judge, courts.seats[judge, case_id]) for judge in judges_of(found)) if found is not None else ()
        return tuple((judge, seat) for judge, seat in named if seat is not None)

    def _status(self, case: CourtCase) -> CaseStatus:
        """Return the case as the next block finds it, if that block refers to no newer final block."""
        if case.round is None:
            return CaseStatus(case, 0, 0, 0)
        windows, height = self.bound[Courts].windows(case), self.bound[System].number.get() + 1
        current = rounds.advanced(case.round, windows, height, self.bound[Beacon].final_height())
        return CaseStatus(
            case,
            commits_until=rounds.commit_deadline(current, windows) or 0,
            opens_from=current.reveals_from,
            opens_until=rounds.reveal_deadline(current, windows) or 0,
        )
