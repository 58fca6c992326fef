"""A task from its order to its payment, without failures."""

import pytest

from gpu_tasks.market.training.bids import auction_id
from gpu_tasks.market.training.events import (
    BidEnded,
    SlotSettled,
    StandbyReleased,
    TaskAwarded,
    TaskEnded,
    WrongTaskState,
)
from gpu_tasks.market.training.life.ending import CLEARED_MAX
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.runtime import Bound
from runtime.pallets.pots import TREASURY
from simulation.chains.market_chain import CUSTOMER, OGPU, refused, signed
from task_chain import COLLATERAL, PRICE, Books, TaskChain, an_offer, hold, with_offers

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


def test_the_lowest_score_wins_at_the_second_and_the_second_stands_by_at_the_third() -> None:
    chain = awarded()
    task = chain.now()
    assert [(slot.provider, slot.price) for slot in task.slots] == [(chain.alice.stash, 7 * OGPU)]
    assert task.standby is not None
    assert (task.standby.provider, task.standby.price) == (chain.bob.stash, 8 * OGPU)


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


def test_the_odd_grain_of_a_fee_burns() -> None:
    chain = TaskChain()
    chain.submit()
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU + 50))
    treasury = chain.free(TREASURY)
    done(chain)
    chain.until(TaskState.ENDED)
    fee, small_fee = (7 * OGPU + 50) // 50, (7 * OGPU + 50) // 50 // 50
    assert fee % 2 == 1
    assert chain.free(TREASURY) - treasury == fee // 2 + small_fee // 2


def test_a_late_result_pays_the_customer_out_of_the_collateral() -> None:
    chain = TaskChain()
    chain.submit()
    chain.auction(with_offers(chain.keys, *BIDS, blocks=4))
    alice, before = chain.alice, chain.wealth(chain.alice.stash)
    done(chain)
    task = chain.now()
    late = task.finished_at - task.started_at - 4
    assert late > 0
    chain.until(TaskState.ENDED)
    price = task.slots[0].price
    lost = 5 * task.terms.time_value * late
    assert chain.now().outcome is TaskOutcome.LATE
    assert chain.wealth(alice.stash) == before + price - price // 50 - lost


def test_equal_bids_are_decided_by_the_beacon_and_not_by_their_order() -> None:
    winners = set()
    for lag in range(1, 9):
        chain = TaskChain(final_lag=lag % 4 + 1)
        chain.chain.chance.seed(lag)
        chain.submit()
        chain.auction(with_offers(chain.keys, *[7 * OGPU] * 4))
        winners.add(chain.now().slots[0].provider)
    assert len(winners) > 1


def test_a_bid_takes_its_device_out_of_every_draw_until_it_has_lost() -> None:
    chain = TaskChain()
    chain.submit()
    alice, third = chain.alice, chain.keys[2]
    assert chain.is_idle(third)
    chain.auction(with_offers(chain.keys, *BIDS))
    assert not chain.is_idle(alice)
    assert not chain.is_idle(third)
    chain.block()
    assert chain.is_idle(third)
    assert not chain.is_idle(chain.bob)  # the standby
    assert [event.burned for event in chain.happened(BidEnded)] == [0]


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


def test_a_bond_that_is_not_opened_burns_and_nobody_has_it() -> None:
    chain = TaskChain()
    before = {keys: chain.wealth(keys.stash) for keys in chain.keys}
    chain.submit()
    chain.auction(with_offers(chain.keys, *BIDS), unopened=(chain.alice,))
    chain.block()
    assert chain.wealth(chain.alice.stash) == before[chain.alice] - PRICE // 10
    assert chain.now().slots[0].provider == chain.bob.stash
    assert [event.burned for event in chain.happened(BidEnded)] == [PRICE // 10]


def test_a_lone_bidder_is_paid_the_greatest_price() -> None:
    chain = TaskChain()
    chain.submit()
    chain.auction(with_offers(chain.keys, 6 * OGPU))
    task = chain.now()
    assert [slot.price for slot in task.slots] == [PRICE]
    assert task.standby is None


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


def test_a_gang_is_awarded_runs_and_is_paid_slot_by_slot() -> None:
    chain = TaskChain(size=9)
    chain.submit(slots=3, milestones=2)
    chain.auction(with_offers(chain.keys, 5 * OGPU, 6 * OGPU, 7 * OGPU, 8 * OGPU, 9 * OGPU))
    assert len(chain.now().slots) == 3
    assert [event.price for event in chain.happened(TaskAwarded)] == [8 * OGPU] * 3
    gang = chain.providers()
    chain.start(gang[0])
    chain.start(gang[1], 1)
    assert chain.state() is TaskState.STARTING
    chain.start(gang[2], 2)
    for place, keys in enumerate(gang):
        chain.report(keys, 1, place)
    chain.count(1)
    for place, keys in enumerate(gang):
        assert chain.state() is TaskState.RUNNING
        chain.finish(keys, place)
    chain.until(TaskState.ENDED)
    assert [event.earned for event in chain.happened(SlotSettled)] == [8 * OGPU] * 3


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


def test_a_record_goes_and_its_deposit_comes_back() -> None:
    chain = done(awarded())
    chain.until(TaskState.ENDED)
    chain.blocks(40)
    assert chain.market.tasks[chain.task] is None
    assert not list(chain.market.bids.under(auction_id(chain.task, 1)))
    assert chain.market.awards[auction_id(chain.task, 1)] is None
    assert [event.outcome for event in chain.happened(TaskEnded)] == [TaskOutcome.ON_TIME]


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


def test_what_a_task_goes_by_does_not_change_with_the_parameters() -> None:
    chain = awarded()
    before = chain.now()
    assert before.rules == chain.market.rules(before.order)
    assert before.windows == chain.market.windows()


def test_a_deadline_passes_and_the_call_comes_too_late() -> None:
    chain = TaskChain()
    chain.submit()
    offer = an_offer(6 * OGPU)
    alice, bob = chain.keys[:2]
    call = chain.commit_call(alice, offer)
    chain.do(bob, chain.commit_call(bob, offer))
    chain.blocks(3)
    chain.block(refused(alice.provider, call, WrongTaskState))
    chain.block(signed(bob.provider, chain.reveal_call(bob, offer)))
    chain.until(TaskState.STARTING)
    chain.start(bob)
    assert chain.now().slots[0].collateral == COLLATERAL
