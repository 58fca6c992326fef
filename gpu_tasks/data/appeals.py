"""An appeal against the decision of a dispute about a unit: the decision, and its last block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpu_tasks.data import market_reads
from gpu_tasks.market.claims.disputes import DisputeStage
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.courts import closing
from gpu_tasks.market.courts.cases import CourtCase
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import CaseEnded
from gpu_tasks.market.courts.money import Flow
from runtime.frame.call import Call
from runtime.frame.runtime import Bound
from wallet.client import ChainClient
from wallet.errors import WalletError


# The payments at the end of a case, computed by the chain's own rules over the state before the block of the end.
#
# Invariant: the end is the one in the block's event. If the state allows no such end, the result is None.
def flows_at_end(bound: Bound, case_id: bytes, ended_case: CaseEnded) -> tuple[CourtCase, tuple[Flow, ...]] | None:
    """Return the payments at the end of a case, from the one of its three possible ends that the event names."""
    courts = bound[Courts]
    open_case = courts.cases[case_id]
    if open_case is None:
        return None
    # Without a court no appeal is possible: the case is decided and ends in one block, so the record before has no
    # verdict
    decided_now = replace(open_case, verdict=ended_case.verdict, has_court=False)
    ends = [(open_case, ended_case.verdict), (open_case, None)] + (
        [(decided_now, None)] if open_case.verdict is None else []
    )
    for record, decided in ends:
        outcome, verdict, flows = closing.reckoned(courts, case_id, record, decided)
        if (outcome, verdict) == (ended_case.outcome, ended_case.verdict):
            return record, flows
    return None


class AppealError(WalletError):
    """There is no decision to appeal against. The message gives the stage of the dispute."""


@dataclass(frozen=True, slots=True)
class Appeal:
    """The call, its facts for display, and the bond in grains: an appeal needs none."""

    call: Call
    facts: dict[str, Any]
    bond: int = 0


async def appeal_against(client: ChainClient, unit_id: bytes, appellant: bytes) -> Appeal:
    """Return this account's appeal against the decision about a unit. Raise AppealError if there is none.

    `appellant` is a party or an outvoted voter. The chain refuses other accounts.
    """
    block_hash = await client.finalized()
    status = await market_reads.unit(client, unit_id, block_hash)
    dispute_id = None if status is None else market_reads.dispute_id_of_unit(unit_id, status)
    found = None if dispute_id is None else await market_reads.item_dispute(client, dispute_id, block_hash)
    if dispute_id is None or found is None:
        raise AppealError("this unit has no open dispute. None was opened, or it is over", code="no_dispute")
    dispute = found.dispute
    if dispute.stage is not DisputeStage.APPEALABLE or dispute.vote is None:
        raise AppealError(
            f"the dispute has no decision to appeal now. It is at {dispute.stage.name.lower()}", code="no_decision"
        )
    facts = {
        "unit": unit_id,
        "dispute": dispute_id,
        "decision": dispute.vote.verdict.name.lower(),
        "answer": dispute.vote.answer,
        "final_after_block": dispute.appealable_until,
        "you_are": "a party" if appellant in dispute.terms.parties else "an outvoted voter, or nobody",
        "then": "all eligible validators vote by stake, once",
    }
    return Appeal(Disputes.appeal(dispute=dispute_id), facts)
