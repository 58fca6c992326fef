"""`ClaimsApi`: queries of providers, checkers and customers about claims."""

from typing import Annotated

from gpu_tasks.market.claims.claims import ClaimStage, ResultClaim
from gpu_tasks.market.claims.claims_storage import owed
from gpu_tasks.market.claims.result_claims import ResultClaims
from runtime.encoding.codec import Bounded, struct
from runtime.encoding.types import AccountId, BlockNumber, Hash
from runtime.frame.api import RuntimeApi, query

CLAIMS_SHOWN_MAX = 1_024
"""The most duties in one answer. Each holds a collateral."""
KEYS_READ_MAX = 4_800
"""The most reads of duties and their claims together: a node proves no call that reads more than 5,000 keys."""
COSTLIEST_FIRST = (
    ClaimStage.SHOWING,
    ClaimStage.OPENING,
    ClaimStage.DISPUTED,
    ClaimStage.CONCEDING,
    ClaimStage.COMMITTING,
)
"""Stages by the cost of an omitted duty: the whole collateral, the same, an appeal, a concession, one fee."""


@struct
class ClaimStatus:
    """An open claim with the account that must act now."""

    id: Hash
    claim: ResultClaim
    actor: AccountId | None
    """None if the claim waits for a beacon, a comparison, or voters."""
    until: BlockNumber
    """The last block of its window; 0 while the previous step is not final."""


class ClaimsApi(RuntimeApi, version=1):
    """Claims and their duties."""

    @query
    def claim(self, claim_id: Hash) -> ClaimStatus | None:
        """Return a claim while it is open, or None."""
        found = self.bound[ResultClaims].claims[claim_id]
        return None if found is None else _status(claim_id, found)

    @query
    def duties(self, stash: AccountId) -> Annotated[tuple[ClaimStatus, ...], Bounded(CLAIMS_SHOWN_MAX)]:
        """Return the claims in which a stash must act or may appeal: the costliest to omit first, then by window."""
        room = self.bound[ResultClaims]
        listed = sorted((COSTLIEST_FIRST.index(stage), claim_id) for claim_id, stage in room.duties.under(stash))
        read = listed[: max(CLAIMS_SHOWN_MAX, KEYS_READ_MAX - len(listed))]
        found = [
            (cost, claim.deadline, claim_id, claim)
            for cost, claim_id in read
            if (claim := room.claims[claim_id]) is not None
        ]
        found.sort(key=lambda each: each[:3])
        return tuple(_status(claim_id, claim) for _, _, claim_id, claim in found[:CLAIMS_SHOWN_MAX])

    @query
    def claim_of_dispute(self, dispute_id: Hash) -> ClaimStatus | None:
        """Return the claim that a dispute is about, or None for another dispute."""
        room = self.bound[ResultClaims]
        claim_id = room.claim_of_dispute[dispute_id]
        claim = None if claim_id is None else room.claims[claim_id]
        return None if claim_id is None or claim is None else _status(claim_id, claim)


def _status(claim_id: bytes, claim: ResultClaim) -> ClaimStatus:
    owing = [] if claim.stage is ClaimStage.DISPUTED else list(owed(claim))
    return ClaimStatus(claim_id, claim, owing[0] if owing else None, claim.deadline)
