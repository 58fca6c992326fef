"""Changes of mind: tasks that are cancelled or stopped."""

from collections.abc import Callable

import pytest

from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training.events import BidEnded
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import TaskState
from simulation.chains.market_chain import CUSTOMER, OGPU, signed
from task_chain import (
    BOND,
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


@pytest.mark.parametrize(
    ("leaves", "outcome", "price", "earned", "alice", "bob"),
    [
        (cancels, BEFORE_START, PAID, 0, forfeit(PAID) // 2, net(STOOD_BY)),
        (cancels_the_takeover, BEFORE_START, 8 * OGPU, 0, -PRICE // 10, forfeit(8 * OGPU) // 2 + net(SECOND_STOOD_BY)),
        (stops_the_takeover, RUNNING, 8 * OGPU, 8 * OGPU // 40, -PRICE // 10,
         forfeit(8 * OGPU) // 2 + net(SECOND_STOOD_BY) + net(8 * OGPU // 40)),
        (stops, RUNNING, PAID, PAID * 11 // 40, net(PAID * 11 // 40) + forfeit(PAID) // 2, net(STOOD_BY)),
        (stops_after_milestones, RUNNING, PAID, PAID * 3 // 4, net(PAID * 3 // 4) + forfeit(PAID) // 2, net(STOOD_BY)),
    ],
)  # fmt: skip
def test_a_customer_that_leaves_pays_the_work_and_half_of_its_bond(
    leaves: Callable[[TaskChain], None], outcome: TaskOutcome, price: int, earned: int, alice: int, bob: int
) -> None:
    """Stated milestones count as work."""
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


def test_while_the_standby_is_asked_the_customer_may_leave() -> None:
    chain, books = awarded()
    alice = chain.alice
    work(chain, alice, milestones=1)
    chain.until(TaskState.ASKING)
    before = books.change(CUSTOMER)
    chain.cancel()
    assert books.change(CUSTOMER) == before - BOND // 10
    assert not list(chain.market.duties.items())


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
