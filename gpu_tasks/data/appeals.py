"""An appeal against the decision of a dispute about a unit: the decision, and its last block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_tasks.data import claim_reads, market_reads
from gpu_tasks.market.claims.disputes import DisputeStage
from gpu_tasks.market.claims.disputes_pallet import Disputes
from runtime.frame.call import Call
from wallet.client import ChainClient
from wallet.errors import WalletError


class AppealError(WalletError):
    """There is no decision to appeal against. The message gives the stage of the dispute."""


@dataclass(frozen=True, slots=True)
class Appeal:
    """The call, and its facts for display. An appeal needs no bond."""

    call: Call
    facts: dict[str, Any]


async def appeal_against(client: ChainClient, unit_id: bytes, appellant: bytes) -> Appeal:
    """Return this account's appeal against the decision about a unit. Raise AppealError if there is none.

    `appellant` is a party or an outvoted voter. The chain refuses other accounts.
    """
    block_hash = await client.finalized()
    status = await market_reads.unit(client, unit_id, block_hash)
    dispute_id = None if status is None else claim_reads.open_dispute_of(unit_id, status)
    found = None if dispute_id is None else await claim_reads.item_dispute(client, dispute_id, block_hash)
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
