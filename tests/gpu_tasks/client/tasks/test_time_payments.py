"""What is shown of who sold time is what moved, or said to be unknown, however its time and its auctions ended."""

from collections.abc import Callable
from typing import Any

import pytest

from gpu_tasks.client.tasks.payments import TaskAccount, payments_of_task
from gpu_tasks.client.tasks.shifts import KINDS, TaskEvents, shifts_of
from gpu_tasks.market.training.bids import auction_id
from gpu_tasks.market.training.life.submitting import looks
from gpu_tasks.market.training.orders import interval_of
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.task_check import AuctionRecords
from simulation.chains.market_chain import CUSTOMER, OGPU, Keys
from task_chain import Books, TaskChain, time_order, with_offers

Scene = tuple[TaskChain, Books]
TWO = (6 * OGPU + 1, 7 * OGPU, 8 * OGPU)


def sold(*prices: int, **order: Any) -> Scene:
    """Four intervals of three blocks, which Alice has begun; the second stands by."""
    chain = TaskChain()
    books = Books(chain)
    chain.submit(**time_order(), **order)
    chain.auction(with_offers(chain.keys, *prices, blocks=12))
    chain.start(chain.alice)
    return chain, books


def give(chain: TaskChain, keys: Keys, *numbers: int) -> None:
    """Intervals are paid."""
    for number in numbers:
        task = chain.now()
        while chain.height + 1 < task.started_at + (number - task.behind) * interval_of(task.order):
            chain.block()
        chain.report(keys, number)


def leave(chain: TaskChain, keys: Keys) -> None:
    chain.do(keys, TrainingMarket.leave(task=chain.task))


def left_alone() -> Scene:
    chain, books = sold(6 * OGPU + 1, auctions=1)
    give(chain, chain.alice, 1, 2)
    leave(chain, chain.alice)
    return chain, books


def left_by_both() -> Scene:
    chain, books = sold(*TWO, auctions=1)
    give(chain, chain.alice, 1)
    leave(chain, chain.alice)
    chain.start(chain.bob)
    give(chain, chain.bob, 2)
    leave(chain, chain.bob)
    return chain, books


def silent_and_not_taken_over() -> Scene:
    chain, books = sold(*TWO, auctions=1)
    give(chain, chain.alice, 1)
    chain.until(TaskState.ENDED)
    return chain, books


def sold_again(chain: TaskChain) -> None:
    """Alice leaves behind an interval, and Bob has the rest by another auction."""
    alice, bob = chain.keys[:2]
    give(chain, alice, 1)
    leave(chain, alice)
    chain.auction(with_offers([bob], 5 * OGPU, blocks=9))
    chain.start(bob)
    give(chain, bob, 2)


def left_in_both_auctions() -> Scene:
    chain, books = sold(6 * OGPU)
    sold_again(chain)
    leave(chain, chain.bob)
    return chain, books


def stopped_in_the_second_auction() -> Scene:
    chain, books = sold(6 * OGPU)
    sold_again(chain)
    chain.stop()
    return chain, books


def stopped_in_the_third_auction() -> Scene:
    chain, books = sold(6 * OGPU, auctions=3)
    sold_again(chain)
    leave(chain, chain.bob)
    chain.auction(with_offers([chain.keys[2]], 5 * OGPU, blocks=6))
    chain.start(chain.keys[2])
    chain.stop()
    return chain, books


def left_where_that_costs_the_customer_little() -> Scene:
    """Of what the leaver loses most burns."""
    chain, books = sold(*TWO, auctions=1, loss=OGPU // 100)
    leave(chain, chain.alice)
    chain.start(chain.bob)
    chain.stop()
    return chain, books


def closed() -> Scene:
    chain, books = sold(*TWO)
    give(chain, chain.alice, 1)
    close = TrainingMarket.close(task=chain.task, pay=OGPU, back=3)
    chain.ask(close)
    chain.do(chain.alice, close, role="stash")
    return chain, books


def taken_over() -> Scene:
    chain, books = sold(*TWO, auctions=1)
    give(chain, chain.alice, 1, 2)
    leave(chain, chain.alice)
    chain.start(chain.bob)
    give(chain, chain.bob, 3)
    chain.stop()
    return chain, books


def ended_by_itself() -> Scene:
    """In the second block of the third interval."""
    chain, books = sold(*TWO)
    give(chain, chain.alice, 1, 2)
    while chain.height + 1 < chain.now().started_at + 8:
        chain.block()
    chain.finish(chain.alice)
    return chain, books


def time_was_up() -> Scene:
    """And its end is stated two blocks later."""
    chain, books = sold(*TWO)
    give(chain, chain.alice, 1, 2, 3)
    while chain.height + 1 < chain.now().started_at + 14:
        chain.block()
    chain.finish(chain.alice)
    return chain, books


def account(chain: TaskChain, happened: TaskEvents) -> TaskAccount:
    task, auctions = chain.now(), []
    for number in range(1, task.auction + 1):
        auction = auction_id(chain.task, number)
        bids = {device: bid for device, bid in chain.market.bids.under(auction) if bid is not None}
        auctions.append(AuctionRecords(chain.market.awards[auction], bids))
    return payments_of_task(chain.task, task, auctions, shifts_of(task, auctions, happened), happened, {})


def whole(chain: TaskChain) -> TaskEvents:
    return TaskEvents([(0, event) for event in reversed(chain.chain.all_events) if isinstance(event, KINDS)])


def wrong(chain: TaskChain, books: Books, found: TaskAccount) -> list[str]:
    """Of whom all is shown, and not what moved."""
    order, odd = chain.now().order, []
    for keys in (*chain.keys, CUSTOMER):
        mine = [each for each in found.parties if each.account == keys.stash]
        shown = sum((each.paid or 0) - (each.lost or 0) for each in mine)
        prepaid = 30_000 * looks(order.auctions, 1, order.milestones) if keys is CUSTOMER else 0
        is_open = any(each.paid is None or each.lost is None for each in mine) or (keys is CUSTOMER and found.unknown)
        if not is_open and shown != chain.wealth(keys.stash) - books.before[keys] + prepaid:
            odd.append(keys.name)
    return odd


KNOWN = (
    left_alone, silent_and_not_taken_over, left_in_both_auctions, stopped_in_the_second_auction, closed, taken_over,
    ended_by_itself, time_was_up, stopped_in_the_third_auction, left_where_that_costs_the_customer_little,
)  # fmt: skip
BY_THE_RECORD = (taken_over, ended_by_itself, time_was_up)


@pytest.mark.parametrize("scene", KNOWN)
def test_what_is_shown_of_time_is_what_moved(scene: Callable[[], Scene]) -> None:
    chain, books = scene()
    chain.until(TaskState.ENDED)
    found = account(chain, whole(chain))
    assert found.unknown == []
    assert wrong(chain, books, found) == []


def test_while_it_runs_what_was_paid_for_intervals_is_shown() -> None:
    chain, books = sold(6 * OGPU + 1)
    give(chain, chain.alice, 1, 2)
    (provider,) = (each for each in account(chain, TaskEvents()).parties if each.account == chain.alice.stash)
    assert provider.paid == chain.wealth(chain.alice.stash) - books.before[chain.alice] > 0
    assert (provider.lost, provider.why) == (0, "intervals so far: it works on it")


@pytest.mark.parametrize("scene", KNOWN)
def test_what_no_event_tells_of_time_is_right_or_said_to_be_unknown(scene: Callable[[], Scene]) -> None:
    chain, books = scene()
    chain.until(TaskState.ENDED)
    found = account(chain, TaskEvents())
    assert wrong(chain, books, found) == []
    assert bool(found.unknown) == (scene not in BY_THE_RECORD)
    gone = books.before[CUSTOMER] - chain.wealth(CUSTOMER.stash)
    assert found.cost(30_000) == (gone if scene in BY_THE_RECORD else None)


def test_that_a_runner_up_took_over_and_is_gone_too_is_said_to_be_unknown() -> None:
    chain, books = left_by_both()
    chain.until(TaskState.ENDED)
    found = account(chain, whole(chain))
    assert any("took it over" in each for each in found.unknown)
    assert "customer" not in wrong(chain, books, found)


@pytest.mark.parametrize("scene", [*KNOWN, left_by_both])
def test_what_the_newest_events_alone_tell_of_time_is_right_or_said_to_be_unknown(scene: Callable[[], Scene]) -> None:
    chain, books = scene()
    chain.until(TaskState.ENDED)
    newest = whole(chain).told
    for count in range(1, len(newest)):
        found = account(chain, TaskEvents(newest[:count]))
        odd = wrong(chain, books, found)
        assert odd == [] or (odd == [chain.bob.name] and any("took it over" in each for each in found.unknown))
