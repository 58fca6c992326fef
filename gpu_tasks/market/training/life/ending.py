"""The end of the parts of a task: slots, standbys and bids are released, and the task ends or goes to auction again.

Invariants: a released provider holds nothing for the task, and its device may be drawn again. An ended task holds only
its deposit. Another auction costs at most the rest of the escrow. Bids and records are dropped a few in each block.
"""

from dataclasses import replace
from itertools import islice

from gpu_tasks.market.training import money, purses
from gpu_tasks.market.training.bids import DRAWS_FROM, auction_id, bid_case
from gpu_tasks.market.training.events import BidEnded, StandbyReleased, TaskEnded, TaskReopened
from gpu_tasks.market.training.items import auction_items
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.purses import collateral_hold, customer_holds, pay_standby
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import (
    BID_BOND,
    TASK_COLLATERAL,
    TASK_DEPOSIT,
    TASK_ESCROW,
    Task,
    TaskState,
    has_bidding,
    has_volunteers,
    slot_case,
    with_slot,
)
from runtime.frame.holds import Hold
from runtime.pallets.staking.slashing import Share

CLEARED_MAX = 8
"""The most bids that one step of a task releases."""
DROPPED_MAX = 32
"""The most bid records that one step of an ended task drops."""


def set_free(
    market: TrainingStorage, task_id: bytes, task: Task, provider: bytes, device_id: bytes, draw_number: int = 0
) -> None:
    """Release a provider's device from a task, and return the rest of its collateral."""
    bid_hold = collateral_hold(task_id, task, device_id, draw_number)
    market.lock.unlock(provider, bid_hold, market.lock.locked(provider, bid_hold))
    market.lock.end(bid_hold)
    market.devices.free(device_id, task_id)


def free_slots(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Release all providers that have a slot."""
    for slot in task.slots:
        set_free(market, task_id, task, slot.provider, slot.device, slot.draw)
        del market.duties[slot.provider, task_id]


def settle_slot(market: TrainingStorage, task_id: bytes, task: Task, place: int, outcome: TaskOutcome) -> Task:
    """Settle one slot with its final outcome, release its provider, and return the task."""
    slot = task.slots[place]
    purses.settle(market, task_id, task, place, outcome)
    task = with_slot(task, place, replace(slot, outcome=outcome))
    set_free(market, task_id, task, slot.provider, slot.device)
    # It may have another slot of the gang, and keeps its duty then.
    if all(other.provider != slot.provider for other in task.slots if other.outcome is None):
        del market.duties[slot.provider, task_id]
    return task


def release_standby(market: TrainingStorage, task_id: bytes, task: Task, place: int = 0) -> Task:
    """Pay the runner-up for standing by if it is bound, and release it. It is still asked first."""
    standby = task.standby
    if standby is None or not standby.is_bound:
        return task
    pay_standby(market, task_id, task, place, standby.provider, task.slots[place].price)
    set_free(market, task_id, task, standby.provider, standby.device)
    market.emit(StandbyReleased(task_id, standby.provider))
    return replace(task, standby=replace(standby, is_bound=False))


def end(market: TrainingStorage, task_id: bytes, task: Task, outcome: TaskOutcome) -> None:
    """End a task with settled slots: return the customer's remaining holds, and keep the record for a while."""
    assert task.standby is None or not task.standby.is_bound, "a standby is released before the end"
    for place in range(task.terms.slots):
        for hold in customer_holds(task_id, place).values():
            market.lock.unlock(task.customer, hold, market.lock.locked(task.customer, hold))
            market.lock.end(hold)
    if task.standby is not None:
        del market.duties[task.standby.provider, task_id]
    market.open_task_count.set(market.open_task_count.get() - 1)
    market.final_agenda.drop(task_id)
    del market.open_auctions[task_id]
    if has_bidding(task) or has_volunteers(task):
        market.clear(task_id)
    ended_task = replace(task, state=TaskState.ENDED, deadline=market.height + task.windows.keep, outcome=outcome)
    market.put(task_id, replace(ended_task, standby=None))
    market.emit(TaskEnded(task_id, outcome, task.auction))


def reopen(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Auction the rest of a task with settled and free slots, from its newest checkpoint, or end it."""
    leg = next_leg(task)
    price_max = _rest_price_max(market, task_id, leg)
    if task.auction >= task.order.auctions or not price_max:
        end(market, task_id, replace(task, slots=()), TaskOutcome.NO_AWARD)
        return
    if task.standby is not None:
        del market.duties[task.standby.provider, task_id]
    terms = replace(
        leg.terms,
        price_max=price_max,
        collateral_min=money.collateral_min(
            leg.rules,
            price_max,
            items=auction_items(leg.order, leg.behind),
            customer_minimum=leg.order.collateral_min,
        ),
    )
    market.emit(TaskReopened(task_id, leg.auction + 1, price_max, leg.milestones))
    market.open_auctions[task_id] = True
    market.put(
        task_id,
        replace(
            leg,
            state=TaskState.COMMITTING,
            deadline=market.height + leg.windows.commit,
            terms=terms,
            auction=leg.auction + 1,
            bids=0,
            revealed=0,
            slots=(),
            standby=None,
        ),
    )


def next_leg(task: Task) -> Task:
    """Return the task with its counted milestones behind it, and the rest not begun."""
    blocks_left = money.remaining_blocks(task.terms.blocks_max, task.done, task.milestones)
    return replace(
        task,
        terms=replace(task.terms, blocks_max=blocks_left),
        milestones=task.milestones - task.done,
        behind=task.behind + task.done,
        begun_from=None if task.checkpoint is None else task.checkpoint.milestone.root,
        done=0,
        owed=0,
        started_at=0,
        reported_at=0,
        finished_at=0,
    )


def clear_bids(market: TrainingStorage, task_id: bytes) -> int:
    """Release some bids of finished auctions, and return their number."""
    task = market.tasks[task_id]
    assert task is not None, "a task's record outlives its bids"
    cleared_count = 0
    for auction_number in _auction_numbers(task, is_current_open=has_bidding(task) or has_volunteers(task)):
        auction = auction_id(task_id, auction_number)
        for device_id in _first_held_bids(market, auction, CLEARED_MAX - cleared_count):
            clear_bid(market, task_id, auction, device_id)
            cleared_count += 1
    # The limit of a block was reached, so the next block continues.
    if cleared_count == CLEARED_MAX:
        market.clear(task_id)
    return cleared_count


def drop(market: TrainingStorage, task_id: bytes, task: Task) -> int:
    """Drop the record of a task that ended long ago, some bids in each block. Return their number."""
    dropped_count = 0
    for auction_number in _auction_numbers(task):
        auction = auction_id(task_id, auction_number)
        # Its bids still wait for their release: a bid without a record could not return its bond.
        if _first_held_bids(market, auction, 1):
            market.put(task_id, replace(task, deadline=market.height))
            return dropped_count
        for device_id, _ in list(islice(market.bids.under(auction), DROPPED_MAX - dropped_count)):
            del market.bids[auction, device_id]
            dropped_count += 1
        if dropped_count == DROPPED_MAX:
            market.put(task_id, replace(task, deadline=market.height))
            return dropped_count
        del market.awards[auction]
    deposit_hold = Hold(TASK_DEPOSIT, task_id)
    market.lock.unlock(task.customer, deposit_hold, task.deposit)
    market.lock.end(deposit_hold)
    # A last look for bids may still be scheduled, although all are released. Without its task it would fail.
    market.clearing.drop(task_id)
    del market.tasks[task_id]
    return dropped_count


def _rest_price_max(market: TrainingStorage, task_id: bytes, task: Task) -> int:
    """Return the greatest price of a slot of this next leg that every slot's escrow can still pay."""
    items = auction_items(task.order, task.behind)
    holds = [Hold(TASK_ESCROW, slot_case(task_id, place)) for place in range(task.terms.slots)]
    # All slots of a gang share one greatest price, so the escrow with the least left decides.
    least_escrow = min(market.lock.locked(task.customer, hold) for hold in holds)
    price_before = task.terms.price_max
    if money.escrow(task.rules, price_before, items) <= least_escrow:
        return price_before
    # A rest that is awarded at this price must still fit the escrow, with standby and checks.
    return min(price_before, money.affordable(task.rules, least_escrow, items))


def _auction_numbers(task: Task, *, is_current_open: bool = False) -> list[int]:
    """Return the numbers of a task's auctions and draws. `is_open` leaves out the current one."""
    auction_numbers = range(1, task.auction + (0 if is_current_open and has_bidding(task) else 1))
    numbers = range(1, task.draws + (0 if is_current_open and has_volunteers(task) else 1))
    return [*auction_numbers, *(DRAWS_FROM + draw_number for draw_number in numbers)]


def _first_held_bids(market: TrainingStorage, auction: bytes, most_bids: int) -> list[bytes]:
    return [device_id for device_id, _ in islice(market.held_bids.under(auction), most_bids)]


def clear_bid(market: TrainingStorage, task_id: bytes, auction: bytes, device_id: bytes) -> None:
    """Release a bid without a slot: return its collateral, or burn a bond that was not opened in time."""
    bid = market.bids[auction, device_id]
    assert bid is not None, "a bid with a hold has a record"
    case_id = bid_case(auction, device_id)
    burned = 0
    if bid.opened is not None:
        market.lock.unlock(bid.provider, Hold(TASK_COLLATERAL, case_id), bid.opened.collateral)
    # The auction has an award, so its reveals are over and the bond is lost.
    elif auction in market.awards:
        burned = bid.bond
        market.lock.pay_out(bid.provider, Hold(BID_BOND, case_id), (Share(None, burned),))
    else:
        market.lock.unlock(bid.provider, Hold(BID_BOND, case_id), bid.bond)
    market.lock.end(Hold(BID_BOND, case_id))
    market.lock.end(Hold(TASK_COLLATERAL, case_id))
    del market.held_bids[auction, device_id]
    market.devices.free(device_id, task_id)
    market.emit(BidEnded(task_id, bid.provider, device_id, burned))
