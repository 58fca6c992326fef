"""Whether a verdict has to be appealed: it is against a provider's own result, its decline, or its finding as a judge.

A committee's majority decides until somebody appeals, and who does not loses its collateral to two of three: the daemon
appeals by itself. The bond returns with twice the price if the court finds the result right. Whose result it is appeals
at once; a judge who was outvoted waits whether somebody does, and speaks up at last.
"""

from __future__ import annotations

from gpu_tasks.market.courts.cases import CaseStage, CourtCase, PartyFault, fault_of
from gpu_tasks.market.courts.courts_api import SeatStatus
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.inference.gpu_tasks_api import UnitStatus
from gpu_tasks.provider.journal.journal import RaceKey

LAST_CALL_BLOCKS = 6
"""So many blocks before a verdict stands, a judge who found another result appeals if nobody has."""


def is_wronged(status: UnitStatus | None, key: RaceKey, stash: bytes) -> bool:
    """Whether the verdict about a unit can be appealed now, and finds an answer of this provider's wrong."""
    case = None if status is None else status.case
    return case is not None and status is not None and status.unit.attempt == key[1] and is_found_lying(case, stash)


def is_found_lying(case: CourtCase, stash: bytes) -> bool:
    """Whether the verdict of a case can be appealed now, and finds an answer of the stash's wrong."""
    if case.stage is not CaseStage.APPEALABLE:
        return False
    own = (claim for claim in case.terms.claims if claim.account == stash and claim.root is not None)
    return any(fault_of(claim, case.verdict) is PartyFault.LIED for claim in own)


def is_found_declining(case: CourtCase, stash: bytes) -> bool:
    """Whether the verdict of a case can be appealed now, and finds an input good that the stash has declined.

    Worth an appeal only to who can show that it is bad: whether it could be had, nobody can.
    """
    if case.stage is not CaseStage.APPEALABLE:
        return False
    own = (claim for claim in case.terms.claims if claim.account == stash)
    return any(fault_of(claim, case.verdict) is PartyFault.DECLINED for claim in own)


def is_outvoted(seat: SeatStatus, height: int) -> bool:
    """Whether a verdict is about to stand that is not what this provider found when it judged.

    Only for a result that it computed: who could not use an input does not know that nobody can. And only against
    another result: who has the verdict "the input is bad" put away pays the court for it.
    """
    case, said = seat.status.case, seat.seat.statement
    if case.stage is not CaseStage.APPEALABLE or said is None or not isinstance(said.opinion, Answered):
        return False
    if not isinstance(case.verdict, Answered):
        return False
    return said.opinion != case.verdict and height <= case.appealable_until <= height + LAST_CALL_BLOCKS
