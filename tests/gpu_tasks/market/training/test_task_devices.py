"""Devices between both markets: one that has bid is drawn for no unit, one that works on a unit bids for no task."""

from typing import Any

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.events import DeviceBusy
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training.bids import auction_id, bid_commitment
from gpu_tasks.market.training.tasks import TaskState, task_id_of
from gpu_tasks.market.training.training_market import TrainingMarket
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    OGPU,
    Keys,
    MarketChain,
    named_keys,
    refused,
    signed,
    terms,
)
from task_chain import SMALL, TaskChain, an_offer, an_order


def both_markets() -> tuple[MarketChain, bytes]:
    """A chain that has both, and a task that takes bids for long."""
    numbers = {**SMALL, "TrainingMarket.commit_blocks": 60}
    chain = MarketChain(named_keys(9), [], numbers, check=lambda _bound, _issued: None)
    chain.blocks(3)
    chain.block(signed(CUSTOMER.stash, TrainingMarket.submit(order=an_order())))
    return chain, task_id_of(GENESIS_HASH, CUSTOMER.stash, 0)


def commit(task: bytes, keys: Keys) -> Any:
    """A bid of somebody's for the task."""
    offer, auction = an_offer(6 * OGPU), auction_id(task, 1)
    sealed = bid_commitment(GENESIS_HASH, auction, keys.stash, keys.device, offer, bytes(32))
    return TrainingMarket.commit_bid(task=task, device=keys.device, commitment=sealed)


def test_who_has_bid_is_drawn_for_no_unit() -> None:
    chain, task = both_markets()
    bidders = chain.validators[:6]
    chain.block(*(signed(keys.provider, commit(task, keys)) for keys in bidders))
    drawn: set[bytes] = set()
    for _ in range(8):
        unit = chain.post(terms(OGPU, 2, chain.height - 1))[0]
        chain.blocks(5)
        drawn |= {racer.owner for racer in chain.unit(unit).racers}
    assert drawn
    assert not drawn & {keys.stash for keys in bidders}


def test_who_works_on_a_unit_bids_for_no_task_with_that_device() -> None:
    chain, task = both_markets()
    unit = chain.post(terms(OGPU, 2, chain.height - 1))[0]
    while chain.unit(unit).state is not UnitState.RACING:
        chain.block()
    racer = chain.keys_of(chain.unit(unit).racers[0].owner)
    chain.block(refused(racer.provider, commit(task, racer), ev.NotEligible))


def test_a_device_that_has_bid_does_not_leave_and_what_it_offers_may() -> None:
    chain, task = both_markets()
    alice = chain.validators[0]
    chain.block(signed(alice.provider, commit(task, alice)))
    chain.block(signed(alice.stash, InferenceMarket.withdraw_offer(device=alice.device, service=0)))
    chain.block(refused(alice.stash, Devices.unregister_device(device=alice.device), DeviceBusy))


def test_a_device_that_is_paused_after_its_bid_may_win_all_the_same() -> None:
    chain = TaskChain()
    chain.submit()
    alice, offer = chain.alice, an_offer(6 * OGPU)
    chain.do(alice, chain.commit_call(alice, offer))
    chain.do(alice, Devices.pause(device=alice.device))
    chain.until(TaskState.REVEALING)
    chain.do(alice, chain.reveal_call(alice, offer))
    chain.until(TaskState.STARTING)
    chain.start(alice)
    assert chain.state() is TaskState.RUNNING
