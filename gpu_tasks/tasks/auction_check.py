"""An auction made again out of what a chain keeps of it: who wins, and why each bid won or lost.

Always: only the records of award and bids are read, so whoever has these, proved, needs to believe nobody.
"""

from collections.abc import Mapping

from gpu_tasks.market.training.bids import Award, TaskBid
from gpu_tasks.market.training.selection import Selection, select
from gpu_tasks.tasks.bid_explanation import ExplainedBid, SealedBid, explain

NO_SEED = bytes(32)


def selection_of(award: Award, bids: Mapping[bytes, TaskBid]) -> Selection:
    """The selection by the bids that were opened, by device; without a seed, equal scores stand in any order."""
    opened = [bid.opened for bid in bids.values() if bid.opened is not None]
    return select(award.terms, opened, NO_SEED if award.seed is None else award.seed)


def explained_auction(award: Award, bids: Mapping[bytes, TaskBid]) -> list[ExplainedBid]:
    """Every bid with its place, its score and why it has its fate; those that were not opened last."""
    closed = [
        SealedBid(bid.provider, device, bid.device_class, bid.bond)
        for device, bid in bids.items()
        if bid.opened is None
    ]
    return explain(award.terms, selection_of(award, bids), closed)
