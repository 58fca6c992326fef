"""Typed reads of claims, disputes and ballots for providers and customers."""

from __future__ import annotations

from gpu_tasks.market.claims.claim_closing import dispute_id_of
from gpu_tasks.market.claims.claims import ClaimStage, ResultClaim
from gpu_tasks.market.claims.claims_api import ClaimStatus
from gpu_tasks.market.claims.disputes_api import BallotStatus, DisputeStatus
from gpu_tasks.market.inference.gpu_tasks_api import UnitStatus
from wallet.client import ChainClient


async def claim(chain: ChainClient, claim_id: bytes, at: bytes | None = None) -> ResultClaim | None:
    """Return an open claim."""
    status: ClaimStatus | None = await chain.query("ClaimsApi_claim", claim_id, at=at)
    return None if status is None else status.claim


async def claim_duties(chain: ChainClient, stash: bytes, at: bytes | None = None) -> tuple[ClaimStatus, ...]:
    """Return the claims in which a stash must act, or may appeal."""
    found: tuple[ClaimStatus, ...] = await chain.query("ClaimsApi_duties", stash, at=at)
    return found


async def item_dispute(chain: ChainClient, dispute_id: bytes, at: bytes | None = None) -> DisputeStatus | None:
    """Return an open dispute about which validators vote, with its clocks, or None."""
    status: DisputeStatus | None = await chain.query("DisputesApi_dispute", dispute_id, at=at)
    return status


async def ballots(chain: ChainClient, stash: bytes, at: bytes | None = None) -> tuple[BallotStatus, ...]:
    """Return the ballots of a voter in open disputes."""
    found: tuple[BallotStatus, ...] = await chain.query("DisputesApi_ballots", stash, at=at)
    return found


def open_dispute_of(unit_id: bytes, status: UnitStatus) -> bytes | None:
    """Return the id of the open dispute about a unit or its claim, or None."""
    unit_claim = status.claim
    if unit_claim is not None and unit_claim.stage is ClaimStage.DISPUTED:
        return dispute_id_of(unit_id, unit_claim.disputes - 1)
    return status.dispute
