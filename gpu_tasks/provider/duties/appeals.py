"""The verdicts of courts to appeal: those against a provider's own result, or its opinion as a judge.

Without an appeal a committee's majority decides, so two of three judges could take the provider's collateral. The
daemon appeals by itself. If the court finds the result right, the appeal bond returns with twice the price. The
provider of the result appeals at once. An outvoted judge waits for that appeal, and appeals last.
"""

from __future__ import annotations

from gpu_tasks.market.courts.cases import CaseStage, CourtCase, PartyFault, fault_of
from gpu_tasks.market.courts.courts_api import SeatStatus
from gpu_tasks.market.courts.opinions import Answered

LAST_CALL_BLOCKS = 6
"""This many blocks before a verdict becomes final, an outvoted judge appeals if nobody else has."""


def is_found_lying(court_case: CourtCase, stash: bytes) -> bool:
    """Return True if the verdict of a case can be appealed and refutes the stash's answer."""
    if court_case.stage is not CaseStage.APPEALABLE:
        return False
    # A claim without a root has no answer to defend. A decline is one: nobody can prove that an input was unavailable.
    own_claims = (claim for claim in court_case.terms.claims if claim.account == stash and claim.root is not None)
    return any(fault_of(claim, court_case.verdict) is PartyFault.LIED for claim in own_claims)


def is_outvoted(judge_seat: SeatStatus, block_height: int) -> bool:
    """Return True if a verdict against this judge's opinion is about to become final.

    This covers only a result that the judge computed: an input that it could not use may be usable by others. And it
    covers only another result: an appeal that overturns the verdict "the input is bad" costs its appellant the court's
    fee.
    """
    court_case, statement = judge_seat.status.case, judge_seat.seat.statement
    if court_case.stage is not CaseStage.APPEALABLE or statement is None or not isinstance(statement.opinion, Answered):
        return False
    if not isinstance(court_case.verdict, Answered):
        return False
    # In the last blocks only: the provider of the refuted result appeals first, and one appeal is enough.
    return (
        statement.opinion != court_case.verdict
        and block_height <= court_case.appealable_until <= block_height + LAST_CALL_BLOCKS
    )
