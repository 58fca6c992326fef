"""`LeafDisputesApi`: what racers and customers ask about batches whose racers differ."""

from typing import Annotated

from gpu_tasks.market.leaf_disputes.disputes import LeafDispute
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from runtime.encoding.codec import Bounded, struct
from runtime.encoding.types import AccountId, Hash
from runtime.frame.api import RuntimeApi, query

DISPUTES_SHOWN_MAX = 1_024
"""Each holds a collateral of who has the duty; the first by ascending unit are shown."""


@struct
class DisputeStatus:
    """A dispute that is not over, with the batch that it is about."""

    unit: Hash
    dispute: LeafDispute


class LeafDisputesApi(RuntimeApi, version=1):
    """Disputes about batches."""

    @query
    def dispute(self, unit: Hash) -> LeafDispute | None:
        """The dispute about a batch, while it goes on; `leaf` is what its judges compute while it is JUDGED."""
        return self.bound[LeafDisputes].disputes[unit]

    @query
    def duties(self, stash: AccountId) -> Annotated[tuple[DisputeStatus, ...], Bounded(DISPUTES_SHOWN_MAX)]:
        """The disputes in which somebody, or another of its side, shows nodes now; by ascending unit."""
        room = self.bound[LeafDisputes]
        listed = sorted(unit for unit, _ in room.duties.under(stash))[:DISPUTES_SHOWN_MAX]
        named = ((unit, room.disputes[unit]) for unit in listed)
        return tuple(DisputeStatus(unit, dispute) for unit, dispute in named if dispute is not None)
