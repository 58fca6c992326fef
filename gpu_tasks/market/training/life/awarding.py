"""From the last commitment to the award, by the agenda alone.

Always: the beacon that breaks ties was known to nobody while a bid could still be opened; the award is what
`selection.select` says of the opened bids, which anybody can make again from the state; a gang gets all its slots, or
none.
"""

from dataclasses import replace

from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.training.bids import Award, auction_id, tie_seed
from gpu_tasks.market.training.events import BidsClosed, StandbyNamed, TaskAwarded
from gpu_tasks.market.training.ground import TrainingGround
from gpu_tasks.market.training.life import ending
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import is_by_time
from gpu_tasks.market.training.selection import Placed, Selection, select
from gpu_tasks.market.training.tasks import Slot, Standby, Task, TaskState


def close_commits(market: TrainingGround, task_id: bytes, task: Task) -> None:
    """No more bids: from here they are opened."""
    if not task.bids:
        ending.end(market, task_id, task, TaskOutcome.NO_AWARD)
        return
    until = market.height + task.windows.reveal - 1  # this block is the first of them
    market.put(task_id, replace(task, state=TaskState.REVEALING, deadline=until))
    market.emit(BidsClosed(task_id, task.bids, until))


def close_reveals(market: TrainingGround, task_id: bytes, task: Task) -> None:
    """What was not opened lost its bond; the others wait for a beacon that nobody knows."""
    market.awards[auction_id(task_id, task.auction)] = Award(task.terms)
    del market.on_sale[task_id]
    task = replace(task, state=TaskState.AWARDING, deadline=0)
    if task.revealed < task.terms.slots:
        ending.end(market, task_id, task, TaskOutcome.NO_AWARD)
        return
    await_beacon(market, task_id, task)


def await_beacon(market: TrainingGround, task_id: bytes, task: Task) -> None:
    """Have the task looked at once the beacon of two blocks from here is final."""
    height = market.height + BEACON_DELAY
    market.put(task_id, replace(task, beacon_at=height))
    market.by_finality.put(height, task_id)


def award(market: TrainingGround, task_id: bytes, task: Task) -> None:
    """Give the slots to whom the selection names; the others are set free from the next block on."""
    beacon = market.beacon.value_at(task.beacon_at)
    if beacon is None:  # finality stood still for longer than the beacon remembers
        await_beacon(market, task_id, task)
        return
    auction = auction_id(task_id, task.auction)
    seed = tie_seed(auction, beacon)
    market.awards[auction] = Award(task.terms, seed)
    found = selection_of(market, task, auction, seed)
    if not found.winners:
        ending.end(market, task_id, task, TaskOutcome.NO_AWARD)
        return
    until = market.height + task.windows.start
    slots = tuple(_slot(task, placed) for placed in found.winners)
    for place, slot in enumerate(slots):
        market.duties[slot.provider, task_id] = True
        del market.held_bids[auction, slot.device]
        market.emit(TaskAwarded(task_id, place, slot.provider, slot.device, slot.price, until))
    standby = _standby(market, task_id, task, found.standby)
    market.put(
        task_id, replace(task, state=TaskState.STARTING, deadline=until, beacon_at=0, slots=slots, standby=standby)
    )
    market.clear(task_id)


def selection_of(market: TrainingGround, task: Task, auction: bytes, seed: bytes) -> Selection:
    """Who wins an auction by its opened bids."""
    bids = [bid.opened for _, bid in market.bids.under(auction) if bid is not None and bid.opened is not None]
    return select(task.terms, bids, seed)


def _slot(task: Task, placed: Placed) -> Slot:
    bid = placed.bid
    return Slot(bid.provider, bid.device, placed.pay, _promised(task, placed), bid.collateral)


def _standby(market: TrainingGround, task_id: bytes, task: Task, placed: Placed | None) -> Standby | None:
    if placed is None:
        return None
    bid = placed.bid
    market.duties[bid.provider, task_id] = True
    del market.held_bids[auction_id(task_id, task.auction), bid.device]
    market.emit(StandbyNamed(task_id, bid.provider, bid.device, placed.pay))
    return Standby(bid.provider, bid.device, placed.pay, _promised(task, placed), bid.collateral)


def _promised(task: Task, placed: Placed) -> int:
    """A bid's blocks; where time is bought all of it is promised, whatever the bid says."""
    return task.terms.blocks_max if is_by_time(task.order) else placed.bid.blocks
