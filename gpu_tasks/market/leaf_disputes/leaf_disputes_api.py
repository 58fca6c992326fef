"""`LeafDisputesApi`: queries of racers and customers about batches whose racers differ."""

from typing import Annotated

from gpu_tasks.market.leaf_disputes.disputes import LeafDispute
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from runtime.encoding.codec import Bounded, struct
from runtime.encoding.types import AccountId, Hash
from runtime.frame.api import RuntimeApi, query

DISPUTES_SHOWN_MAX = 1_024
"""The most disputes in one answer, by ascending unit. Each holds a collateral of the side with the duty."""


@struct
class LeafDisputeStatus:
    """An open dispute with its batch."""

    unit: Hash
    dispute: LeafDispute


class LeafDisputesApi(RuntimeApi, version=1):
    """Disputes about batches."""

    @query
    def dispute(self, unit: Hash) -> LeafDispute | None:
        """Return the dispute about a batch while it is open, or None. Its `leaf` is judged while it is JUDGED."""
        return self.bound[LeafDisputes].disputes[unit]

    @query
    def duties(self, stash: AccountId) -> Annotated[tuple[LeafDisputeStatus, ...], Bounded(DISPUTES_SHOWN_MAX)]:
        """Return the disputes in which a stash or another of its side must show nodes now, by ascending unit."""
        room = self.bound[LeafDisputes]
        listed = sorted(unit for unit, _ in room.duties.under(stash))[:DISPUTES_SHOWN_MAX]
        named = ((unit, room.disputes[unit]) for unit in listed)
        return tuple(LeafDisputeStatus(unit, dispute) for unit, dispute in named if dispute is not None)
