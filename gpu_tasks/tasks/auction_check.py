"""An auction made again out of what a chain keeps of it: why each bid won or lost, and whether the award is right.

Always: only the records of task, award and bids are read, so whoever has these, proved, needs to believe nobody.
"""

from collections.abc import Mapping, Sequence

from gpu_tasks.market.training.bids import Award, TaskBid
from gpu_tasks.market.training.selection import Placed, Selection, select
from gpu_tasks.market.training.tasks import Slot, Standby, Task
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


def award_problems(task: Task, award: Award, bids: Mapping[bytes, TaskBid]) -> list[str]:
    """What of a fresh award is not as the selection says: nothing, if the chain went by its rules."""
    if award.seed is None:
        return ["the auction has no beacon yet: nobody can say who wins a tie"]
    found = selection_of(award, bids)
    problems = []
    if len(task.slots) != len(found.winners):
        problems.append(f"{len(task.slots)} slots are awarded, and the selection has {len(found.winners)} winners")
    for place, (slot, placed) in enumerate(zip(task.slots, found.winners, strict=False)):
        problems += [f"slot {place}: {problem}" for problem in _differences(slot, placed)]
    if (task.standby is None) != (found.standby is None):
        problems.append("the award names a standby, or none, and the selection does not agree")
    elif task.standby is not None and found.standby is not None:
        problems += [f"standby: {problem}" for problem in _differences(task.standby, found.standby)]
    return problems


def _differences(worker: Slot | Standby, placed: Placed) -> Sequence[str]:
    bid = placed.bid
    compared = (
        ("provider", worker.provider.hex(), bid.provider.hex()),
        ("device", worker.device.hex(), bid.device.hex()),
        ("price", worker.price, placed.pay),
        ("promised blocks", worker.promised, bid.blocks),
        ("collateral", worker.collateral, bid.collateral),
    )
    return [f"{name} {stated}, and {wanted} by the selection" for name, stated, wanted in compared if stated != wanted]
