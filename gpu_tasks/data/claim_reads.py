"""Typed reads of claims, disputes and ballots for providers and customers. A chain without their pallets has none."""

from __future__ import annotations

from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.claims.claims_api import ClaimStatus
from gpu_tasks.market.claims.disputes import Dispute
from gpu_tasks.market.claims.disputes_api import BallotStatus, DisputeStatus
from gpu_tasks.market.claims.result_claims import ResultClaims
from wallet.client import ChainClient


def has_claims(chain: ChainClient) -> bool:
    """Return True if results are claims on this chain."""
    return ResultClaims in chain.runtime.pallets


async def claim(chain: ChainClient, claim_id: bytes, at: bytes | None = None) -> ResultClaim | None:
    """Return an open claim."""
    status: ClaimStatus | None = await chain.query("ClaimsApi_claim", claim_id, at=at) if has_claims(chain) else None
    return None if status is None else status.claim


async def claim_duties(chain: ChainClient, stash: bytes, at: bytes | None = None) -> tuple[ClaimStatus, ...]:
    """Return the claims in which a stash must act, or may appeal."""
    found: tuple[ClaimStatus, ...] = await chain.query("ClaimsApi_duties", stash, at=at) if has_claims(chain) else ()
    return found


async def item_dispute(chain: ChainClient, dispute_id: bytes, at: bytes | None = None) -> Dispute | None:
    """Return an open dispute about an item, differing results or an input."""
    if not has_claims(chain):
        return None
    status: DisputeStatus | None = await chain.query("DisputesApi_dispute", dispute_id, at=at)
    return None if status is None else status.dispute


async def ballots(chain: ChainClient, stash: bytes, at: bytes | None = None) -> tuple[BallotStatus, ...]:
    """Return the ballots of a voter in open disputes."""
    found: tuple[BallotStatus, ...] = (
        await chain.query("DisputesApi_ballots", stash, at=at) if has_claims(chain) else ()
    )
    return found
