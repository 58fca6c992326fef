"""What judges do about a unit that is before them, and until when, for its customer.

Always: only what the case says at one block; texts name blocks, so that they change only when something does.
"""

from __future__ import annotations

from gpu_tasks.market.courts.cases import CaseStage, ClaimKind, CourtCase
from gpu_tasks.market.courts_api import CaseStatus

BENCHES = {CaseStage.PAIR: "a pair of judges", CaseStage.COMMITTEE: "a committee", CaseStage.COURT: "a court"}


def why_judging(status: CaseStatus) -> str:
    """A sentence: what brought the unit before judges, and what these do now."""
    return f"{_cause(status.case)}; {what_judges_do(status)}"


def _cause(case: CourtCase) -> str:
    claims = case.terms.claims
    answers = {claim.root for claim in claims if claim.kind is ClaimKind.ANSWERED}
    declined = sum(claim.kind is ClaimKind.DECLINED for claim in claims)
    if len(answers) > 1:
        return "its racers gave different answers"
    if answers:
        return "one answer came where more were asked for"
    return f"{declined} providers could not use its input" if declined else "no answer was opened in time"


def what_judges_do(status: CaseStatus) -> str:
    """What its bench does now, and until which block."""
    case = status.case
    if case.stage is CaseStage.APPEALABLE:
        return f"judges have decided, which stands if nobody appeals up to block {case.appealable_until}"
    bench = BENCHES.get(case.stage, "judges")
    if case.round is None:
        return f"{bench} will be drawn"
    if status.opens_from:
        return f"{bench} opens what it found, at the latest in block {status.opens_until}"
    until = f", at the latest up to block {status.commits_until}" if status.commits_until else ""
    return f"{bench} computes it again{until}"
