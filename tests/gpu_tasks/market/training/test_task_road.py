"""A task from its order to its payment, without failures."""

import pytest

from gpu_tasks.market.training.events import (
    StandbyReleased,
)
from gpu_tasks.market.training.life.ending import CLEARED_MAX
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.runtime import Bound
from runtime.pallets.pots import TREASURY
from simulation.chains.market_chain import CUSTOMER, OGPU
from task_chain import Books, TaskChain, hold, with_offers

BIDS = (6 * OGPU, 7 * OGPU, 8 * OGPU)


def awarded(chain: TaskChain | None = None, **order: object) -> TaskChain:
    """Return a task of one slot that Alice has at Bob's price, with Bob as standby."""
    chain = chain or TaskChain()
    chain.submit(**order)
    chain.auction(with_offers(chain.keys, *BIDS))
    assert chain.state() is TaskState.STARTING
    return chain


def done(chain: TaskChain) -> TaskChain:
    """Return the task of `awarded`, with a claimed result."""
    alice = chain.alice
    chain.start(alice)
    for number in (1, 2, 3):
        chain.report(alice, number)
        chain.count(number)
    chain.finish(alice)
    assert chain.state() is TaskState.CLAIMED
    return chain


def test_a_result_that_passes_is_paid_to_the_grain() -> None:
    chain = TaskChain()
    before = {keys: chain.wealth(keys.stash) for keys in (*chain.keys, CUSTOMER)}
    treasury = chain.free(TREASURY)
    done(awarded(chain))
    chain.until(TaskState.ENDED)
    task = chain.now()
    assert (task.state, task.outcome) == (TaskState.ENDED, TaskOutcome.ON_TIME)
    price, share = 7 * OGPU, 7 * OGPU // 50
    alice, bob, third = chain.keys[:3]
    fee, small_fee = price // 50, share // 50
    assert chain.wealth(alice.stash) == before[alice] + price - fee
    assert chain.wealth(bob.stash) == before[bob] + share - small_fee
    assert chain.wealth(third.stash) == before[third]
    looks = 30_000 * (2 * (12 + 2) + 20)
    assert chain.wealth(CUSTOMER.stash) == before[CUSTOMER] - price - share - looks
    assert chain.free(TREASURY) - treasury == fee // 2 + small_fee // 2
    assert all(chain.is_idle(keys) for keys in chain.keys)
    assert chain.market.provider_records[alice.stash].settled > 0


def test_equal_bids_are_decided_by_the_beacon_and_not_by_their_order() -> None:
    winners = set()
    for lag in range(1, 9):
        chain = TaskChain(final_lag=lag % 4 + 1)
        chain.chain.chance.seed(lag)
        chain.submit()
        chain.auction(with_offers(chain.keys, *[7 * OGPU] * 4))
        winners.add(chain.now().slots[0].provider)
    assert len(winners) > 1


def test_of_many_bids_all_that_lost_are_set_free() -> None:
    """A block has room for a few of them, and the rest waits for the next."""
    chain = TaskChain(size=2 * CLEARED_MAX + 3)
    chain.submit()
    books = Books(chain)
    chain.auction(with_offers(chain.keys, *(6 * OGPU + place * OGPU // 100 for place in range(len(chain.keys)))))
    losers = chain.keys[2:]
    assert not all(chain.is_idle(keys) for keys in losers)
    chain.blocks(3)
    assert all(chain.is_idle(keys) for keys in losers)
    assert books.changes(*losers) == [0] * len(losers)


def test_the_standby_is_paid_and_free_with_the_first_milestone_that_counts() -> None:
    chain = awarded()
    alice, bob = chain.keys[:2]
    chain.start(alice)
    chain.report(alice, 1)
    assert not chain.is_idle(bob)
    before = chain.wealth(bob.stash)
    chain.do(bob, hold(chain, 1))
    share = 7 * OGPU // 50
    assert chain.wealth(bob.stash) == before + share - share // 50
    assert chain.is_idle(bob)
    assert chain.now().done == 1
    chain.report(alice, 2)
    chain.count(2)
    assert len(chain.happened(StandbyReleased)) == 1


def test_fewer_bids_than_the_gang_needs_award_nothing() -> None:
    chain = TaskChain()
    before = {keys: chain.wealth(keys.stash) for keys in (*chain.keys, CUSTOMER)}
    chain.submit(slots=4)
    chain.auction(with_offers(chain.keys, *BIDS))
    assert chain.now().outcome is TaskOutcome.NO_AWARD
    chain.blocks(2)
    assert all(chain.is_idle(keys) for keys in chain.keys)
    assert [chain.wealth(keys.stash) for keys in chain.keys] == [before[keys] for keys in chain.keys]
    assert chain.wealth(CUSTOMER.stash) == before[CUSTOMER] - 30_000 * (2 * (12 + 8) + 20)


def test_without_a_bid_it_ends_with_the_time_to_bid() -> None:
    chain = TaskChain()
    chain.submit()
    chain.blocks(4)
    assert chain.state() is TaskState.COMMITTING
    chain.block()
    assert chain.now().outcome is TaskOutcome.NO_AWARD


@pytest.mark.parametrize("times", [1, 3])
def test_the_deposit_that_comes_back_is_the_one_that_was_locked(times: int) -> None:
    """The chain's parameter may rise or fall during a task."""
    chain = done(awarded())
    locked = chain.now().deposit

    def change(bound: Bound) -> None:
        market = bound[TrainingMarket]
        market.context.parameters.change(TrainingMarket.task_deposit, market.task_deposit * times // 2)

    chain.block(change)
    assert chain.market.task_deposit == locked * times // 2
    chain.until(TaskState.ENDED)
    before = chain.free(CUSTOMER.stash)
    while chain.market.tasks[chain.task] is not None:
        chain.block()
    assert chain.free(CUSTOMER.stash) == before + locked
