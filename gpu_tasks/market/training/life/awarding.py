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
    beacon_value = market.beacon.value_at(task.beacon_at)
    # Finality halted for longer than the beacon remembers.
    if beacon_value is None:
        market.await_beacon(task_id, task)
        return
    auction_key = auction_id(task_id, task.auction)
    award_seed = tie_seed(auction_key, beacon_value)
    market.awards[auction_key] = Award(auctioned_terms(task), award_seed)
    auction_result = selection_of(market, task, auction_key, award_seed)
    if not auction_result.winners:
        ending.end(market, task_id, task, TaskOutcome.NO_AWARD)
        return
    last_block = market.height + task.windows.start
    won_slots = tuple(_slot_of_winner(task, placed_bid) for placed_bid in auction_result.winners)
    for slot_place, slot in enumerate(won_slots):
        market.duties[slot.provider, task_id] = True
        # A winner's holds belong to its slot from here on: `clear_bids` must not release them.
        del market.held_bids[auction_key, slot.device]
        market.emit(TaskAwarded(task_id, slot_place, slot.provider, slot.device, slot.price, last_block))
    task = replace(task, state=TaskState.STARTING, deadline=last_block, beacon_at=0, slots=won_slots)
    market.clear(task_id)
    if is_replicated(task.order):
        replicating.seek(market, task_id, task)
    else:
        market.put(task_id, replace(task, standby=_standby_of(market, task_id, task, auction_result.standby)))


def selection_of(market: TrainingStorage, task: Task, auction_key: bytes, award_seed: bytes) -> Selection:
    """Return the selection among an auction's opened bids."""
    opened_bids = [
        sealed_bid.opened
        for _, sealed_bid in market.bids.under(auction_key)
        if sealed_bid is not None and sealed_bid.opened is not None
    ]
    return select(auctioned_terms(task), opened_bids, award_seed)


def _slot_of_winner(task: Task, placed_bid: Placed) -> Slot:
    winning_bid = placed_bid.bid
    return Slot(
        winning_bid.provider, winning_bid.device, placed_bid.pay, _promised(task, placed_bid), winning_bid.collateral
    )


def _standby_of(market: TrainingStorage, task_id: bytes, task: Task, placed_bid: Placed | None) -> Standby | None:
    if placed_bid is None:
        return None
    standby_bid = placed_bid.bid
    market.duties[standby_bid.provider, task_id] = True
    del market.held_bids[auction_id(task_id, task.auction), standby_bid.device]
    market.emit(StandbyNamed(task_id, standby_bid.provider, standby_bid.device, placed_bid.pay))
    return Standby(
        standby_bid.provider, standby_bid.device, placed_bid.pay, _promised(task, placed_bid), standby_bid.collateral
    )


def _promised(task: Task, placed_bid: Placed) -> int:
    """Return a bid's blocks. For bought time, every bid promises all of it."""
    return task.terms.blocks_max if is_by_time(task.order) else placed_bid.bid.blocks
