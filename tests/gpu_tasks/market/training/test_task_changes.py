"""Changes of mind: tasks that are cancelled, stopped, amended, or closed by both sides."""

from collections.abc import Callable

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
    finish_and_pass,
    forfeit,
    net,
    with_offers,
    work,
)

HELD = (TASK_ESCROW, TASK_BOND)


@pytest.mark.parametrize(
    ("state", "unopened"), [(TaskState.COMMITTING, 0), (TaskState.REVEALING, 0), (TaskState.AWARDING, PRICE // 10)]
)
def test_before_the_award_the_customer_pays_for_cancelling_and_an_unopened_bond_burns(
    state: TaskState, unopened: int
) -> None:
    """During the reveals no bidder has failed yet. While the award is pending, Bob has."""
    chain = TaskChain(final_lag=6 if state is TaskState.AWARDING else 1)
    books = Books(chain)
    chain.submit()
    offer = an_offer(6 * OGPU)
    chain.block(*(signed(keys.provider, chain.commit_call(keys, offer)) for keys in (chain.alice, chain.bob)))
    if state is not TaskState.COMMITTING:
        chain.until(TaskState.REVEALING)
        chain.do(chain.alice, chain.reveal_call(chain.alice, offer))
        chain.until(state)
    chain.cancel()
    assert chain.now().outcome is TaskOutcome.CANCELLED_BEFORE_AWARD
    assert books.change(CUSTOMER) == -BOND // 10
    chain.block()
    assert sorted(event.burned for event in chain.happened(BidEnded)) == [0, unopened]
    assert books.changes(chain.alice, chain.bob) == [0, -unopened]
    assert chain.is_idle(chain.alice)


PAID, STOOD_BY, SECOND_STOOD_BY = 7 * OGPU, 7 * OGPU // 50, 8 * OGPU // 50
BEFORE_START, RUNNING = TaskOutcome.CANCELLED_BEFORE_START, TaskOutcome.CANCELLED_RUNNING


def cancels(chain: TaskChain) -> None:
    """Cancel right after the award."""
    chain.cancel()


def cancels_the_takeover(chain: TaskChain) -> None:
    """Cancel once Bob has the slot, after Alice did not start."""
    chain.blocks(5)
    chain.cancel()


def stops_the_takeover(chain: TaskChain) -> None:
    """Stop a block after Bob has started in Alice's place."""
    chain.blocks(5)
    chain.start(chain.bob)
    chain.stop()


def stops(chain: TaskChain) -> None:
    """Stop eleven blocks after the start. A running task cannot be cancelled."""
    chain.start(chain.alice)
    chain.blocks(9)
    chain.cancel(ev.WrongTaskState)
    chain.stop()


def stops_after_milestones(chain: TaskChain) -> None:
    """Stop after three milestones, none of which the customer acknowledged."""
    work(chain, chain.alice, milestones=3, counted=0)
    chain.stop()


def gives_blocks_and_stops(chain: TaskChain, *blocks: int) -> None:
    """Stop ten blocks after the start, after these additions to the promise."""
    chain.start(chain.alice)
    chain.blocks(9 - len(blocks))
    for more in blocks:
        chain.amend(MoreBlocks(more))
    chain.stop()


def gives_twice_and_stops(chain: TaskChain) -> None:
    """Give blocks in two parts."""
    gives_blocks_and_stops(chain, 20, 10)


def gives_the_most_and_stops(chain: TaskChain) -> None:
    """Extend the task by the most blocks."""
    gives_blocks_and_stops(chain, BLOCKS_MAX - 40)


@pytest.mark.parametrize(
    ("leaves", "outcome", "price", "earned", "alice", "bob"),
    [
        (cancels, BEFORE_START, PAID, 0, forfeit(PAID) // 2, net(STOOD_BY)),
        (cancels_the_takeover, BEFORE_START, 8 * OGPU, 0, -PRICE // 10, forfeit(8 * OGPU) // 2 + net(SECOND_STOOD_BY)),
        (stops_the_takeover, RUNNING, 8 * OGPU, 8 * OGPU // 40, -PRICE // 10,
         forfeit(8 * OGPU) // 2 + net(SECOND_STOOD_BY) + net(8 * OGPU // 40)),
        (stops, RUNNING, PAID, PAID * 11 // 40, net(PAID * 11 // 40) + forfeit(PAID) // 2, net(STOOD_BY)),
        (stops_after_milestones, RUNNING, PAID, PAID * 3 // 4, net(PAID * 3 // 4) + forfeit(PAID) // 2, net(STOOD_BY)),
        (gives_twice_and_stops, RUNNING, PAID, PAID // 4, net(PAID // 4) + forfeit(PAID) // 2, net(STOOD_BY)),
        (gives_the_most_and_stops, RUNNING, PAID, PAID // 4, net(PAID // 4) + forfeit(PAID) // 2, net(STOOD_BY)),
    ],
)  # fmt: skip
def test_a_customer_that_leaves_pays_the_work_and_half_of_its_bond(
    leaves: Callable[[TaskChain], None], outcome: TaskOutcome, price: int, earned: int, alice: int, bob: int
) -> None:
    """Stated milestones count as work, and added blocks do not make it cheaper."""
    chain, books = awarded()
    leaves(chain)
    assert chain.now().outcome is outcome
    assert books.changes(chain.alice, chain.bob) == [alice, bob]
    penalty = PRICE // 20 if price != PAID else 0
    assert books.change(CUSTOMER) == penalty - earned - forfeit(price) - price // 50


def test_before_the_award_a_part_of_each_slots_bond_burns() -> None:
    chain = TaskChain()
    chain.submit(slots=3)
    before = chain.wealth(CUSTOMER.stash)
    chain.cancel()
    assert chain.wealth(CUSTOMER.stash) - before == -3 * (BOND // 10)


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


@pytest.mark.parametrize("state", [TaskState.STARTING, TaskState.RUNNING])
def test_both_may_sign_another_end(state: TaskState) -> None:
    chain, books = awarded()
    alice, bob = chain.keys[:2]
    if state is not TaskState.STARTING:
        chain.start(alice)
    assert chain.state() is state
    close = TrainingMarket.close(task=chain.task, pay=3 * OGPU, back=5 * OGPU)
    chain.ask(close)
    chain.do(alice, close, role="stash")
    assert chain.now().outcome is TaskOutcome.CLOSED
    assert books.change(alice) == net(3 * OGPU) - 5 * OGPU
    assert books.change(bob) == net(7 * OGPU // 50)
    assert books.change(CUSTOMER) == 2 * OGPU - 7 * OGPU // 50
    assert chain.market.provider_records[alice.stash].settled == 0  # it is no evidence of work


def test_an_end_needs_every_provider_of_a_gang() -> None:
    chain, books = awarded(5 * OGPU, 6 * OGPU, 7 * OGPU, 8 * OGPU, slots=2)
    gang = chain.providers()
    close = TrainingMarket.close(task=chain.task, pay=OGPU, back=0)
    chain.ask(close)
    chain.do(gang[0], close, role="stash")
    assert chain.state() is TaskState.STARTING
    refused(gang[0].stash, close, ev.DoneAlready)(chain.chain.now())
    chain.ask(TrainingMarket.close(task=chain.task, pay=2 * OGPU, back=0))  # another offer needs another signature
    close = TrainingMarket.close(task=chain.task, pay=2 * OGPU, back=0)
    for keys in gang:
        signed(keys.stash, close)(chain.chain.now())
    chain.block(*(signed(keys.stash, close) for keys in gang))
    assert chain.state() is TaskState.ENDED
    assert books.changes(*gang) == [net(2 * OGPU)] * 2


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
    assert task.deadline == chain.height + 4  # a provider that could not bid for less has the whole time
    held = {reason: chain.market.lock.locked(CUSTOMER.stash, Hold(reason, slot_case(chain.task, 0))) for reason in HELD}
    assert held == {TASK_ESCROW: money.escrow(task.rules, 2 * PRICE, items=1), TASK_BOND: 2 * BOND}
    assert task.terms.price_max == 2 * PRICE
    assert task.terms.collateral_min == money.collateral_min(task.rules, 2 * PRICE, items=1)
    chain.auction(with_offers(chain.keys, 15 * OGPU, 16 * OGPU, collateral=2 * COLLATERAL))
    assert chain.now().slots[0].price == 16 * OGPU
    bond = Hold(BID_BOND, bid_case(auction_id(chain.task, 1), chain.alice.device))
    assert chain.market.lock.locked(chain.alice.stash, bond) == 0


@pytest.mark.parametrize(("blocks", "outcome"), [(40, TaskOutcome.ON_TIME), (41, TaskOutcome.LATE)])
def test_the_last_promised_block_is_in_time(blocks: int, outcome: TaskOutcome) -> None:
    chain = TaskChain()
    chain.submit(milestones=1)
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU))
    alice = chain.alice
    chain.start(alice)
    chain.blocks_to(chain.now().started_at + blocks - 1)
    finish_and_pass(chain, alice)
    assert chain.now().outcome is outcome


def test_more_blocks_make_a_late_result_a_timely_one() -> None:
    chain = TaskChain()
    chain.submit()
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU, blocks=4))
    alice = chain.alice
    chain.start(alice)
    chain.amend(MoreBlocks(20))
    chain.blocks(8)
    finish_and_pass(chain, alice)
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
