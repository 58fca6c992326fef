"""An appeal by hand against a decision of nine voters about a unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_tasks.data import claim_reads, market_reads
from gpu_tasks.market.claims.claim_closing import dispute_id_of
from gpu_tasks.market.claims.claims import ClaimStage
from gpu_tasks.market.claims.disputes import DisputeStage
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.inference.gpu_tasks_api import UnitStatus
from runtime.frame.call import Call
from wallet.client import ChainClient
from wallet.errors import WalletError


class DisputeAppealError(WalletError):
    """There is no decision to appeal. Codes: `no_dispute`, `no_decision`."""


@dataclass(frozen=True, slots=True)
class DisputeAppeal:
    """The call, and its facts for display. An appeal needs no bond."""

    call: Call
    facts: dict[str, Any]


async def dispute_appeal(client: ChainClient, unit_id: bytes) -> DisputeAppeal:
    """Return the appeal against the decision about a unit. Raise DisputeAppealError if there is none."""
    status = await market_reads.unit(client, unit_id)
    dispute_id = None if status is None else open_dispute_of(unit_id, status)
    dispute = None if dispute_id is None else await claim_reads.item_dispute(client, dispute_id)
    if dispute_id is None or dispute is None:
        raise DisputeAppealError("this unit has no open dispute. None was opened, or it is over", code="no_dispute")
    if dispute.stage is not DisputeStage.APPEALABLE or dispute.vote is None:
        stage = dispute.stage.name.lower()
        raise DisputeAppealError(f"the dispute has no decision to appeal. Its stage is {stage}", code="no_decision")
    facts = {
        "unit": unit_id,
        "dispute": dispute_id,
        "verdict": dispute.vote.verdict.name.lower(),
        "answer": dispute.vote.answer,
        "final_after_block": dispute.appealable_until,
    }
    return DisputeAppeal(Disputes.appeal(dispute=dispute_id), facts)


def open_dispute_of(unit_id: bytes, status: UnitStatus) -> bytes | None:
    """Return the id of the open dispute about a unit or its claim, or None."""
    claim = status.claim
    if claim is not None and claim.stage is ClaimStage.DISPUTED:
        return dispute_id_of(unit_id, claim.disputes - 1)
    return status.dispute
