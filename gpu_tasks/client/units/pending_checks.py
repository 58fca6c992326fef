"""The open claim and the open dispute of a unit: objects for programs, and a sentence for people.

A claimed unit has a claim: the customer can read the answer, and the payment waits for a check. A unit whose racers
differ, or whose input was declined, has a dispute. So has a claim whose item is in doubt.

Invariants:

* All facts are of one block, which the node proves.
* Blocks are named as `block N`, so that a command can add the time. The sentence changes only with the facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_tasks.client.open_checks import OpenClaim, OpenDispute, open_dispute
from gpu_tasks.data import claim_reads, market_reads
from gpu_tasks.market.claims.disputes import DisputeQuestion
from gpu_tasks.market.inference.units import Unit, UnitState, declines_of
from wallet.amounts import counted
from wallet.client import ChainClient

WAITS = "the answer can be read; its payment waits for a check"


@dataclass(frozen=True, slots=True)
class PendingChecks:
    """The checks that a unit waits for, as of one block."""

    unit: Unit
    claim: OpenClaim | None = None
    dispute: OpenDispute | None = None

    def claim_facts(self) -> dict[str, Any] | None:
        """Return the claim for programs, or None."""
        return None if self.claim is None else self.claim.facts()

    def dispute_facts(self) -> dict[str, Any] | None:
        """Return the dispute for programs, or None."""
        return None if self.dispute is None else self.dispute.facts()

    def says(self) -> str:
        """Return the reason of the wait as a sentence."""
        dispute = None if self.dispute is None else self.dispute.says()
        if self.claim is not None:
            return "; ".join(filter(None, (WAITS, self.claim.says(), dispute)))
        return "; ".join(filter(None, (self._cause(), dispute)))

    def _cause(self) -> str:
        dispute = self.dispute
        if dispute is not None and dispute.status.dispute.terms.question is DisputeQuestion.INPUT:
            return f"{counted(declines_of(self.unit), 'provider')} could not use its input"
        return "its racers gave different answers"


async def pending_checks(
    client: ChainClient, unit_id: bytes, unit: Unit, block_hash: bytes | None = None
) -> PendingChecks | None:
    """Return the checks that a unit waits for at a block, or None if it waits for none."""
    if unit.state not in (UnitState.CLAIMED, UnitState.DISPUTED):
        return None
    status = await market_reads.unit(client, unit_id, block_hash)
    if status is None or status.unit.state is not unit.state:
        return None
    dispute_id = claim_reads.open_dispute_of(unit_id, status)
    found = None if dispute_id is None else await claim_reads.item_dispute(client, dispute_id, block_hash)
    dispute = None if dispute_id is None or found is None else open_dispute(dispute_id, found, status.claim)
    if unit.state is UnitState.CLAIMED:
        return None if status.claim is None else PendingChecks(unit, OpenClaim(status.claim), dispute)
    return PendingChecks(unit, None, dispute)
