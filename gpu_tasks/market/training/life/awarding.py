"""From the last commitment to the award, by scheduled steps alone.

Invariants: the beacon that breaks ties was unknown while a bid could still be opened. The award is the result of
`selection.select` for the opened bids, which any party can recompute from the state. A gang gets all its slots, or
none.
"""

from dataclasses import replace

from gpu_tasks.market.training.bids import Award, auction_id, tie_seed
from gpu_tasks.market.training.events import BidsClosed, StandbyNamed, TaskAwarded
from gpu_tasks.market.training.life import ending, replicating
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import is_by_time, is_replicated
from gpu_tasks.market.training.selection import Placed, Selection, select
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import Slot, Standby, Task, TaskState, auctioned_terms


def close_commits(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Close bidding, and let bids be opened from this block on."""
    if not task.bids:
        ending.end(market, task_id, task, TaskOutcome.NO_AWARD)
        return
    # This block is the first of the window.
    last_block = market.height + task.windows.reveal - 1
    market.put(task_id, replace(task, state=TaskState.REVEALING, deadline=last_block))
    market.emit(BidsClosed(task_id, task.bids, last_block))


def close_reveals(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Close the reveals, and wait for a beacon that is still unknown. Bids that were not opened lose their bonds."""
    market.awards[auction_id(task_id, task.auction)] = Award(auctioned_terms(task))
    del market.open_auctions[task_id]
    task = replace(task, state=TaskState.AWARDING, deadline=0)
    # Without enough opened bids, no beacon can help.
    if task.revealed < auctioned_terms(task).slots:
        ending.end(market, task_id, task, TaskOutcome.NO_AWARD)
        return
    market.await_beacon(task_id, task)


def award(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Give the slots to the selected bids. The other bids are released from the next block on."""
    beacon = market.beacon.value_at(task.beacon_at)
    # Finality halted for longer than the beacon remembers.
    if beacon is None:
        market.await_beacon(task_id, task)
        return
    auction = auction_id(task_id, task.auction)
    seed = tie_seed(auction, beacon)
    market.awards[auction] = Award(auctioned_terms(task), seed)
    result = selection_of(market, task, auction, seed)
    if not result.winners:
        ending.end(market, task_id, task, TaskOutcome.NO_AWARD)
        return
    last_block = market.height + task.windows.start
    won_slots = tuple(_slot_of_winner(task, placed) for placed in result.winners)
    for place, slot in enumerate(won_slots):
        market.duties[slot.provider, task_id] = True
        # A winner's holds belong to its slot from here on: `clear_bids` must not release them.
        del market.held_bids[auction, slot.device]
        market.emit(TaskAwarded(task_id, place, slot.provider, slot.device, slot.price, last_block))
    task = replace(task, state=TaskState.STARTING, deadline=last_block, beacon_at=0, slots=won_slots)
    market.clear(task_id)
    if is_replicated(task.order):
        replicating.seek(market, task_id, task)
    else:
        market.put(task_id, replace(task, standby=_standby_of(market, task_id, task, result.standby)))


def selection_of(market: TrainingStorage, task: Task, auction: bytes, seed: bytes) -> Selection:
    """Return the selection among an auction's opened bids."""
    opened = [bid.opened for _, bid in market.bids.under(auction) if bid is not None and bid.opened is not None]
    return select(auctioned_terms(task), opened, seed)


def _slot_of_winner(task: Task, placed: Placed) -> Slot:
    bid = placed.bid
    return Slot(bid.provider, bid.device, placed.pay, _promised(task, placed), bid.collateral)


def _standby_of(market: TrainingStorage, task_id: bytes, task: Task, placed: Placed | None) -> Standby | None:
    if placed is None:
        return None
    standby_bid = placed.bid
    market.duties[standby_bid.provider, task_id] = True
    del market.held_bids[auction_id(task_id, task.auction), standby_bid.device]
    market.emit(StandbyNamed(task_id, standby_bid.provider, standby_bid.device, placed.pay))
    return Standby(
        standby_bid.provider, standby_bid.device, placed.pay, _promised(task, placed), standby_bid.collateral
    )


def _promised(task: Task, placed: Placed) -> int:
    """Return a bid's blocks. For bought time, every bid promises all of it."""
    return task.terms.blocks_max if is_by_time(task.order) else placed.bid.blocks
