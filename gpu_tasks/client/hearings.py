"""What judges do about a unit that is before them, and until when, for its customer.

Always: only what case and dispute say at one block; texts name blocks, so that they change only when something does.
"""

from __future__ import annotations

from gpu_tasks.data import market_reads
from gpu_tasks.market.courts.cases import CaseStage, ClaimKind, CourtCase
from gpu_tasks.market.courts_api import CaseStatus
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage, LeafDispute
from wallet.client import ChainClient

BENCHES = {CaseStage.PAIR: "a pair of judges", CaseStage.COMMITTEE: "a committee", CaseStage.COURT: "a court"}


async def why_heard(client: ChainClient, unit_id: bytes, unit: Unit, at: bytes | None) -> str | None:
    """What happens with a unit that is not decided by its race; None where the chain has nothing about it any more."""
    dispute = await market_reads.dispute(client, unit_id, at) if unit.leaf_audit_ppm else None
    if dispute is not None and dispute.stage is not DisputeStage.JUDGED:
        return why_differing(dispute)
    case = await market_reads.case(client, unit_id, at)
    return None if case is None else why_judging(case, None if dispute is None else dispute.leaf)


def why_differing(dispute: LeafDispute) -> str:
    """A sentence about a batch whose racers differ, while these show their trees."""
    what = "their trees" if dispute.stage is DisputeStage.SUBTREES else "their leaves"
    who = "both" if len(dispute.sides) == 2 else f"all {len(dispute.sides)} sides"
    shown = sum(side.has_shown for side in dispute.sides)
    return f"its racers differ; {who} show {what} until block {dispute.deadline}, {shown or 'none'} so far"


def why_judging(status: CaseStatus, leaf: int | None = None) -> str:
    """A sentence: what brought the unit, or one leaf of it, before judges, and what these do now."""
    cause = _cause(status.case) if leaf is None else f"its racers differ first in leaf {leaf}, which alone is judged"
    return f"{cause}; {what_judges_do(status)}"


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
