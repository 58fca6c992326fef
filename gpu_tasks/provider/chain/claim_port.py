"""The port of duties about claims: reads of claims, disputes and ballots."""

from __future__ import annotations

from typing import Protocol

from gpu_tasks.market.claims.claims import Claim
from gpu_tasks.market.claims.claims_api import ClaimStatus
from gpu_tasks.market.claims.disputes import Dispute
from gpu_tasks.market.claims.disputes_api import BallotStatus
from gpu_tasks.provider.chain.port import RacePort


class ClaimPort(RacePort, Protocol):
    """Claims and disputes, in the newest state in use or in the final one. Every method may raise ChainError."""

    async def claim(self, claim: bytes, *, final: bool = False) -> Claim | None:
        """Return an open claim."""

    async def item_dispute(self, dispute: bytes, *, final: bool = False) -> Dispute | None:
        """Return an open dispute about an item, differing results or an input."""

    async def claim_duties(self) -> tuple[ClaimStatus, ...]:
        """Return the claims in which this provider must act now, as checker or provider, or may appeal."""

    async def ballots(self, *, final: bool = False) -> tuple[BallotStatus, ...]:
        """Return this provider's ballots in open disputes."""
