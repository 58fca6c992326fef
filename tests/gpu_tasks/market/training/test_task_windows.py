"""Deadlines where the hook has no room: what comes too late is refused though nobody has looked at the task yet."""

import pytest

from gpu_tasks.market.training import training_market
from gpu_tasks.market.training.events import WrongTaskState
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.encoding.types import Weight
from simulation.chains.market_chain import CUSTOMER, OGPU, refused, signed
from task_chain import TaskChain, an_offer, an_order, with_offers

NO_ROOM = Weight(0, 0)
DUE = 60


def without_room(patch: pytest.MonkeyPatch) -> None:
    """From here the hook has no room for deadlines."""
    patch.setattr(training_market, "HEIGHT_BUDGET", NO_ROOM)


def test_a_bid_that_comes_late_is_refused_before_the_hook_has_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = TaskChain()
    chain.submit()
    without_room(monkeypatch)
    chain.blocks(4)
    assert (chain.state(), chain.height) == (TaskState.COMMITTING, chain.now().deadline)
    alice = chain.alice
    call = chain.commit_call(alice, an_offer(6 * OGPU))
    signed(alice.provider, call)(chain.chain.now())  # in the last block of the window
    chain.block()
    assert chain.state() is TaskState.COMMITTING
    refused(alice.provider, call, WrongTaskState)(chain.chain.now())


def test_a_start_that_comes_late_is_refused_before_the_hook_has_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = TaskChain()
    chain.submit()
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU))
    without_room(monkeypatch)
    chain.blocks(5)
    start = TrainingMarket.start(task=chain.task, place=0)
    refused(chain.alice.provider, start, WrongTaskState)(chain.chain.now())
    monkeypatch.undo()
    chain.block()
    assert chain.now().slots[0].provider == chain.bob.stash


def test_a_record_stays_until_its_bids_have_given_back_what_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = TaskChain()
    alice = chain.alice
    before = chain.free(alice.stash)
    chain.submit()
    chain.do(alice, chain.commit_call(alice, an_offer(6 * OGPU)))
    monkeypatch.setattr(training_market, "CLEARING_BUDGET", NO_ROOM)
    chain.cancel()
    chain.blocks(40)
    assert chain.state() is TaskState.ENDED
    assert not chain.is_idle(alice)
    monkeypatch.undo()
    chain.blocks(4)
    assert chain.market.tasks[chain.task] is None
    assert chain.is_idle(alice)
    assert chain.free(alice.stash) == before


def test_nothing_is_left_of_a_task_whose_record_is_dropped() -> None:
    chain = TaskChain()
    chain.submit()
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU, 8 * OGPU))
    chain.start(chain.alice)
    chain.until(TaskState.ENDED)
    chain.blocks(40)
    market = chain.market
    for kept in (market.tasks, market.awards, market.bids, market.held_bids, market.duties, market.on_sale):
        assert not list(kept.items())
    for pending in (market.heights, market.finals, market.clearing):
        assert not list(pending.places.items())


def test_what_a_block_has_no_room_for_waits_for_the_next_one() -> None:
    chain = TaskChain(constants={"TrainingMarket.commit_blocks": 4})
    order = TrainingMarket.submit(order=an_order(price_max=OGPU))
    chain.block(*[signed(CUSTOMER.stash, order)] * DUE)
    chain.blocks(4)
    ended: list[int] = []
    while sum(ended) < DUE:
        before = chain.market.open_tasks.get()
        chain.block()
        ended.append(before - chain.market.open_tasks.get())
    assert len(ended) > 1
    assert all(ended)
