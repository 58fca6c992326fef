"""Bids: sealed commitments, then openings.

Invariants: from its commitment on, a bid holds its bond and its device, which is drawn for nothing else. The state
alone decides which devices may bid. The decisive numbers are opened when no bid can be committed any more.
"""

from dataclasses import replace

from gpu_tasks.market.devices.records import Device
from gpu_tasks.market.training import money
from gpu_tasks.market.training.bids import BidOffer, TaskBid, auction_id, bid_case, bid_commitment
from gpu_tasks.market.training.events import (
    BidCommitted,
    BidRevealed,
    CollateralTooLow,
    DeviceHasBid,
    NoSuchBid,
    NotEligible,
    TooManyBids,
    WrongBidOpening,
)
from gpu_tasks.market.training.reputation import record_at
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import BID_BOND, TASK_COLLATERAL, Task, TaskState
from gpu_tasks.market.training.terms import Bid
from runtime.frame.holds import Hold
from runtime.frame.pallet import ensure, known


def commit(market: TrainingStorage, task_id: bytes, account: bytes, device_id: bytes, commitment: bytes) -> None:
    """Commit to a bid for one slot with one device. Its stash holds the bond."""
    task = market.open_task(task_id)
    market.ensure_in(task, TaskState.COMMITTING)
    provider, auction = market.devices.operator(account), auction_id(task_id, task.auction)
    record = market.devices.owned(device_id, provider)
    ensure(market.bids[auction, device_id] is None, DeviceHasBid)
    ensure(is_eligible(market, task, device_id, record), NotEligible)
    ensure(task.bids < BIDS_MAX, TooManyBids)
    bond_grains = money.bid_bond(task.rules, task.terms.price_max)
    market.lock.lock(provider, Hold(BID_BOND, bid_case(auction, device_id)), bond_grains)
    market.devices.assign(device_id, task_id)
    market.bids[auction, device_id] = TaskBid(provider, record.kind, commitment, bond_grains)
    market.held_bids[auction, device_id] = True
    market.put(task_id, replace(task, bids=task.bids + 1))
    market.emit(BidCommitted(task_id, provider, device_id))


def reveal(
    market: TrainingStorage, task_id: bytes, account: bytes, device_id: bytes, offer: BidOffer, salt: bytes
) -> None:
    """Open a bid, and lock its collateral, of which the bond becomes a part."""
    task = market.open_task(task_id)
    market.ensure_in(task, TaskState.REVEALING)
    provider, auction = market.devices.operator(account), auction_id(task_id, task.auction)
    bid = known(market.bids[auction, device_id], NoSuchBid)
    ensure(bid.provider == provider and bid.opened is None, NoSuchBid)
    genesis_hash = market.system.block_hash[0]
    ensure(
        bid.commitment == bid_commitment(genesis_hash, auction, provider, device_id, offer, salt),
        WrongBidOpening,
    )
    ensure(offer.collateral >= bid.bond, CollateralTooLow)
    case_id = bid_case(auction, device_id)
    market.lock.rededicate(provider, Hold(BID_BOND, case_id), Hold(TASK_COLLATERAL, case_id), bid.bond)
    market.lock.lock(provider, Hold(TASK_COLLATERAL, case_id), offer.collateral - bid.bond)
    # Kept in the bid, so that the selection can be recomputed when the track record has changed.
    past_record = record_at(market.provider_records[provider], market.stake.current_era.get())
    opened = Bid(
        provider,
        device_id,
        bid.device_class,
        offer.price,
        offer.blocks,
        offer.collateral,
        past_record,
    )
    market.bids[auction, device_id] = replace(bid, opened=opened)
    market.put(task_id, replace(task, revealed=task.revealed + 1))
    market.emit(BidRevealed(task_id, provider, device_id, offer))


def is_eligible(market: TrainingStorage, task: Task, device_id: bytes, record: Device) -> bool:
    """Return True if a device may bid for a task now: free, of an admitted and proven class, with the least bond.

    Its owner must be able to read the input, and must not be the customer.
    """
    sealing_key = market.devices.providers[record.owner]
    return (
        market.capacity.is_free(device_id, record)
        and bool(task.order.classes >> record.kind & 1)
        # The bond may have been charged below the minimum since the registration.
        and record.bond >= market.devices.bond_min(record.kind)
        and sealing_key is not None
        and sealing_key.key_since <= task.order.sealed_at
        # A customer that is a stash's provider key is the same party as the stash.
        and record.owner not in (task.customer, market.devices.operator(task.customer))
    )
