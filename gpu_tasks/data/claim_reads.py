"""Typed reads of claims, disputes and ballots for providers and customers."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_tasks.market.claims.claim_closing import dispute_id_of
from gpu_tasks.market.claims.claims import ClaimStage, ResultClaim
from gpu_tasks.market.claims.claims_api import ClaimStatus
from gpu_tasks.market.claims.disputes_api import BallotStatus, DisputeStatus
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference.gpu_tasks_api import UnitStatus
from wallet.client import ChainClient


async def claim(chain: ChainClient, claim_id: bytes, at: bytes | None = None) -> ResultClaim | None:
    """Return an open claim."""
    status: ClaimStatus | None = await chain.query("ClaimsApi_claim", claim_id, at=at)
    return None if status is None else status.claim


async def claims(chain: ChainClient, claim_ids: Sequence[bytes], at: bytes | None = None) -> list[ResultClaim | None]:
    """Return many claims with few queries, None for each that is not open."""
    return await chain.read_many(ResultClaims.claims, claim_ids, at=at) if claim_ids else []


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
    disputed_claim = None if status.claim is None else dispute_of(unit_id, status.claim)
    return disputed_claim or status.dispute


def dispute_of(claim_id: bytes, claim: ResultClaim) -> bytes | None:
    """Return the id of the open dispute about an item of a claim, or None."""
    return dispute_id_of(claim_id, claim.disputes - 1) if claim.stage is ClaimStage.DISPUTED else None
