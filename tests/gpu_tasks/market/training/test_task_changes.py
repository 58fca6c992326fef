"""Changes of mind: tasks that are cancelled, stopped, amended, or closed by both."""

import pytest

from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training import money
from gpu_tasks.market.training.bids import auction_id, bid_case
from gpu_tasks.market.training.events import BidEnded
from gpu_tasks.market.training.life.leaving import MoreBlocks, RaisePrice
from gpu_tasks.market.training.life.submitting import BLOCKS_MAX
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import BID_BOND, TASK_BOND, TASK_ESCROW, TaskState, slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.holds import Hold
from simulation.chains.market_chain import CUSTOMER, OGPU, refused, signed
from task_chain import (
    BOND,
    COLLATERAL,
    PRICE,
    Books,
    TaskChain,
    an_offer,
    awarded,
    finish_and_accept,
    forfeit,
    net,
    with_offers,
    work,
)

HELD = (TASK_ESCROW, TASK_BOND)


@pytest.mark.parametrize("state", [TaskState.COMMITTING, TaskState.REVEALING])
def test_before_the_award_only_the_customer_pays_for_cancelling(state: TaskState) -> None:
    chain = TaskChain()
    books = Books(chain)
    chain.submit()
    alice, bob = chain.keys[:2]
    offer = an_offer(6 * OGPU)
    chain.block(*(signed(keys.provider, chain.commit_call(keys, offer)) for keys in (alice, bob)))
    chain.until(state)
    if state is TaskState.REVEALING:
        chain.do(alice, chain.reveal_call(alice, offer))
    chain.cancel()
    assert chain.now().outcome is TaskOutcome.CANCELLED_BEFORE_AWARD
    assert books.change(CUSTOMER) == -BOND // 10
    chain.block()
    assert [event.burned for event in chain.happened(BidEnded)] == [0, 0]
    assert books.change(alice) == books.change(bob) == 0
    assert chain.is_idle(alice)


def test_while_the_award_is_awaited_a_bond_that_was_not_opened_burns_all_the_same() -> None:
    chain = TaskChain(final_lag=6)
    books = Books(chain)
    chain.submit()
    alice, bob = chain.keys[:2]
    offer = an_offer(6 * OGPU)
    chain.block(*(signed(keys.provider, chain.commit_call(keys, offer)) for keys in (alice, bob)))
    chain.until(TaskState.REVEALING)
    chain.do(alice, chain.reveal_call(alice, offer))
    chain.until(TaskState.AWARDING)
    chain.cancel()
    chain.block()
    assert books.change(alice) == 0
    assert books.change(bob) == -PRICE // 10


def test_between_award_and_start_half_of_the_bond_is_the_providers() -> None:
    chain, books = awarded()
    alice, bob = chain.keys[:2]
    chain.cancel()
    assert chain.now().outcome is TaskOutcome.CANCELLED_BEFORE_START
    assert books.change(alice) == forfeit(7 * OGPU) // 2
    assert books.change(bob) == net(7 * OGPU // 50)
    assert books.change(CUSTOMER) == -forfeit(7 * OGPU) - 7 * OGPU // 50


def test_a_cancelled_takeover_pays_who_stood_by() -> None:
    chain, books = awarded()
    bob = chain.bob
    chain.blocks(5)
    chain.cancel()
    assert books.change(bob) == forfeit(8 * OGPU) // 2 + net(8 * OGPU // 50)


def test_before_the_award_a_part_of_each_slots_bond_burns() -> None:
    chain = TaskChain()
    chain.submit(slots=3)
    before = chain.wealth(CUSTOMER.stash)
    chain.cancel()
    assert chain.wealth(CUSTOMER.stash) - before == -3 * (BOND // 10)


def test_who_took_over_while_bound_and_is_stopped_has_stood_by_once() -> None:
    chain, books = awarded()
    bob = chain.bob
    chain.blocks(5)
    chain.start(bob)
    chain.stop()
    task = chain.now()
    earned = 8 * OGPU * (task.deadline - task.windows.keep - task.started_at) // 40
    assert books.change(bob) == forfeit(8 * OGPU) // 2 + net(8 * OGPU // 50) + net(earned)


def test_what_was_added_twice_is_no_part_of_the_promise() -> None:
    chain, books = awarded()
    alice = chain.alice
    chain.start(alice)
    chain.blocks(7)
    for blocks in (20, 10):
        chain.amend(MoreBlocks(blocks))
    chain.stop()
    task = chain.now()
    earned = 7 * OGPU * (task.deadline - task.windows.keep - task.started_at) // 40
    assert books.change(alice) == net(earned) + forfeit(7 * OGPU) // 2


def test_a_task_that_runs_is_stopped_for_what_has_elapsed() -> None:
    chain, books = awarded()
    alice, bob = chain.keys[:2]
    chain.start(alice)
    chain.blocks(9)
    chain.cancel(ev.WrongTaskState)
    chain.stop()
    task = chain.now()
    assert task.outcome is TaskOutcome.CANCELLED_RUNNING
    earned = 7 * OGPU * 11 // 40
    assert books.change(alice) == net(earned) + forfeit(7 * OGPU) // 2
    assert books.change(bob) == net(7 * OGPU // 50)
    assert books.change(CUSTOMER) == -earned - 7 * OGPU // 50 - forfeit(7 * OGPU)


def test_who_is_stopped_is_paid_for_the_milestones_it_has_stated() -> None:
    """Their checkpoints are sealed to the customer: who signs for none has the work of a fast machine all the same."""
    chain, books = awarded()
    alice = chain.alice
    work(chain, alice, milestones=3, counted=0)
    chain.stop()
    assert books.change(alice) == net(7 * OGPU * 3 // 4) + forfeit(7 * OGPU) // 2


def test_who_gives_more_blocks_and_stops_pays_for_what_has_elapsed_of_the_promise() -> None:
    chain, books = awarded()
    alice = chain.alice
    chain.start(alice)
    chain.blocks(8)
    chain.amend(MoreBlocks(BLOCKS_MAX - 40))
    chain.stop()
    assert books.change(alice) == net(7 * OGPU * 10 // 40) + forfeit(7 * OGPU) // 2


def test_nobody_is_bound_to_stand_by_for_longer_than_the_task_allowed_to_promise() -> None:
    chain, books = awarded()
    alice, bob = chain.keys[:2]
    chain.start(alice)
    limit = chain.now().terms.blocks_max
    chain.amend(MoreBlocks(limit - 40))
    assert not chain.is_idle(bob)
    chain.amend(MoreBlocks(1))
    assert chain.is_idle(bob)
    assert books.change(bob) == net(7 * OGPU // 50)
    standby = chain.now().standby
    assert standby is not None
    assert standby.provider == bob.stash  # it is still asked first
    assert not standby.is_bound


def test_while_the_standby_is_asked_the_customer_may_leave() -> None:
    chain, books = awarded()
    alice = chain.alice
    work(chain, alice, milestones=1)
    chain.until(TaskState.ASKING)
    before = books.change(CUSTOMER)
    chain.cancel()
    assert books.change(CUSTOMER) == before - BOND // 10
    assert not list(chain.market.duties.items())


@pytest.mark.parametrize("state", [TaskState.STARTING, TaskState.RUNNING, TaskState.SUBMITTED])
def test_both_may_sign_another_end(state: TaskState) -> None:
    chain, books = awarded()
    alice, bob = chain.keys[:2]
    if state is not TaskState.STARTING:
        chain.start(alice)
    if state is TaskState.SUBMITTED:
        chain.finish(alice)
    assert chain.state() is state
    close = TrainingMarket.close(task=chain.task, pay=3 * OGPU, back=5 * OGPU)
    chain.ask(close)
    chain.do(alice, close, role="stash")
    assert chain.now().outcome is TaskOutcome.CLOSED
    assert books.change(alice) == net(3 * OGPU) - 5 * OGPU
    assert books.change(bob) == net(7 * OGPU // 50)
    assert books.change(CUSTOMER) == 2 * OGPU - 7 * OGPU // 50
    assert chain.market.records[alice.stash].settled == 0  # it says nothing of work


def test_an_end_needs_every_provider_of_a_gang() -> None:
    chain, books = awarded(5 * OGPU, 6 * OGPU, 7 * OGPU, 8 * OGPU, slots=2)
    gang = chain.providers()
    close = TrainingMarket.close(task=chain.task, pay=OGPU, back=0)
    chain.ask(close)
    chain.do(gang[0], close, role="stash")
    assert chain.state() is TaskState.STARTING
    refused(gang[0].stash, close, ev.DoneAlready)(chain.chain.now())
    chain.ask(TrainingMarket.close(task=chain.task, pay=2 * OGPU, back=0))  # another offer is signed anew
    close = TrainingMarket.close(task=chain.task, pay=2 * OGPU, back=0)
    for keys in gang:
        signed(keys.stash, close)(chain.chain.now())
    chain.block(*(signed(keys.stash, close) for keys in gang))
    assert chain.state() is TaskState.ENDED
    assert books.changes(*gang) == [net(2 * OGPU)] * 2


def test_who_takes_a_place_over_has_signed_no_end() -> None:
    chain, books = awarded(5 * OGPU, 6 * OGPU, 7 * OGPU, 8 * OGPU, slots=2)
    first, second = chain.providers()
    close = TrainingMarket.close(task=chain.task, pay=0, back=30 * OGPU)
    chain.ask(close)
    chain.do(second, close, role="stash")
    chain.start(first)
    while chain.now().slots[1].provider == second.stash:
        chain.block()
    third = chain.chain.keys_of(chain.now().slots[1].provider)
    chain.do(first, close, ev.NoCloseOffer, role="stash")
    assert chain.state() is TaskState.STARTING
    assert books.change(third) == 0


def test_an_end_that_is_offered_goes_with_who_it_is_offered_to() -> None:
    chain, _ = awarded(6 * OGPU)
    chain.start(chain.alice)
    chain.offer_end(OGPU)
    chain.until(TaskState.COMMITTING)
    assert chain.now().close is None


def test_a_higher_price_is_locked_and_bid_for() -> None:
    chain = TaskChain()
    chain.submit()
    chain.blocks(2)
    chain.amend(RaisePrice(2 * PRICE))
    task = chain.now()
    assert task.deadline == chain.height + 4  # who could not bid for less has the whole time
    held = {reason: chain.market.lock.locked(CUSTOMER.stash, Hold(reason, slot_case(chain.task, 0))) for reason in HELD}
    assert held == {TASK_ESCROW: money.escrow(task.rules, 2 * PRICE), TASK_BOND: 2 * BOND}
    assert task.terms.price_max == 2 * PRICE
    assert task.terms.collateral_min == money.collateral_min(task.rules, 2 * PRICE)
    chain.auction(with_offers(chain.keys, 15 * OGPU, 16 * OGPU, collateral=80 * OGPU))
    assert chain.now().slots[0].price == 16 * OGPU
    bond = Hold(BID_BOND, bid_case(auction_id(chain.task, 1), chain.alice.device))
    assert chain.market.lock.locked(chain.alice.stash, bond) == 0


@pytest.mark.parametrize(("blocks", "outcome"), [(40, TaskOutcome.ON_TIME), (41, TaskOutcome.LATE)])
def test_the_last_promised_block_is_in_time(blocks: int, outcome: TaskOutcome) -> None:
    chain = TaskChain()
    chain.chain.chance.seed(2)  # by which its beacon asks for no audit
    chain.submit(milestones=1)
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU))
    alice = chain.alice
    chain.start(alice)
    chain.blocks_to(chain.now().started_at + blocks - 1)
    finish_and_accept(chain, alice)
    assert chain.now().outcome is outcome


def test_more_blocks_make_a_late_result_a_timely_one() -> None:
    chain = TaskChain()
    chain.submit()
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU, blocks=4))
    alice = chain.alice
    chain.start(alice)
    chain.amend(MoreBlocks(20))
    chain.blocks(8)
    finish_and_accept(chain, alice)
    assert chain.now().outcome is TaskOutcome.ON_TIME
    assert chain.now().slots[0].collateral == COLLATERAL


def test_who_takes_a_place_over_has_not_signed_what_was_signed_before() -> None:
    chain, books = awarded(6 * OGPU, 6 * OGPU, 7 * OGPU, slots=2)
    task = chain.now()
    keys = {each.stash: each for each in chain.keys}
    first, second = (keys[slot.provider] for slot in task.slots)
    assert task.standby is not None
    honest = keys[task.standby.provider]
    offer = TrainingMarket.close(task=chain.task, pay=0, back=COLLATERAL)
    chain.ask(offer)
    chain.do(first, offer, role="stash")  # and never starts
    chain.start(second, 1)
    while chain.now().slots[0].provider == first.stash:
        chain.block()
    assert chain.now().slots[0].provider == honest.stash
    chain.do(second, offer, ev.NoCloseOffer, role="stash")
    assert books.change(honest) == 0
