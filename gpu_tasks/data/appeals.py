"""An appeal against the decision of a dispute about a unit or a task: the decision, and its last block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpu_tasks.data import claim_reads, market_reads, training_reads
from gpu_tasks.market.claims.disputes import Dispute, DisputeStage
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


async def appeal_against(client: ChainClient, work_id: bytes, appellant: bytes) -> Appeal:
    """Return this account's appeal against the decision about a unit or a task. Raise AppealError if there is none.

    `appellant` is a party or an outvoted voter. The chain refuses other accounts. Several claims of a task may be in
    dispute: the first decided one counts, those with the appellant as a party first.
    """
    block_hash = await client.finalized()
    kind, dispute_ids = await _open_disputes(client, work_id, block_hash)
    found = [(each, await claim_reads.item_dispute(client, each, block_hash)) for each in dispute_ids]
    disputes = [(dispute_id, status.dispute) for dispute_id, status in found if status is not None]
    if not disputes:
        raise AppealError(f"this {kind} has no open dispute. None was opened, or it is over", code="no_dispute")
    disputes.sort(key=lambda each: (not _is_decided(each[1]), appellant not in each[1].terms.parties))
    dispute_id, dispute = disputes[0]
    if not _is_decided(dispute) or dispute.vote is None:
        raise AppealError(
            f"the dispute has no decision to appeal now. It is at {dispute.stage.name.lower()}", code="no_decision"
        )
    facts = {
        kind: work_id,
        "dispute": dispute_id,
        "decision": dispute.vote.verdict.name.lower(),
        "answer": dispute.vote.answer,
        "final_after_block": dispute.appealable_until,
        "you_are": "a party" if appellant in dispute.terms.parties else "an outvoted voter, or nobody",
        "then": "all eligible validators vote by stake, once",
    }
    return Appeal(Disputes.appeal(dispute=dispute_id), facts)


async def _open_disputes(client: ChainClient, work_id: bytes, block_hash: bytes) -> tuple[str, Sequence[bytes]]:
    """Return the kind of a work, and the ids of its open disputes."""
    task_status = await training_reads.task_status(client, work_id, block_hash)
    if task_status is None:
        status = await market_reads.unit(client, work_id, block_hash)
        dispute_id = None if status is None else claim_reads.open_dispute_of(work_id, status)
        return "unit", () if dispute_id is None else (dispute_id,)
    claims = await claim_reads.claims(client, [claim_id for _, claim_id in task_status.claims], block_hash)
    ids = [
        claim_reads.dispute_of(claim_id, claim)
        for (_, claim_id), claim in zip(task_status.claims, claims, strict=True)
        if claim is not None
    ]
    return "task", [each for each in (task_status.dispute, *ids) if each is not None]


def _is_decided(dispute: Dispute) -> bool:
    return dispute.stage is DisputeStage.APPEALABLE
