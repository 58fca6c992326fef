"""Payments of tasks that sell time or run as replicas: the output equals the moved money, or says "unknown"."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.client.commands.task_decisions import deposit, locked
from gpu_tasks.client.tasks.payments import TaskAccount, payments_of_task
from gpu_tasks.client.tasks.records import progress, why
from gpu_tasks.client.tasks.results import RunBlobError, stated_outputs
from gpu_tasks.client.tasks.shifts import KINDS, TaskEvents, shifts_of
from gpu_tasks.market.training import money
from gpu_tasks.market.training.bids import DRAWS_FROM, auction_id
from gpu_tasks.market.training.life.submitting import looks
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import interval_of
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.replica_check import agreed_results, check_replicas
from gpu_tasks.tasks.task_check import AuctionRecords, check_task
from replica_chain import bind, compute, offer, open_all, open_call, ordered, replicated, spent
from runtime.frame.api import Apis
from runtime.pallets.balances import Balances
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU, Keys
from state_node import StateNode
from task_chain import PRICE, RIGHT, WRONG, Books, TaskChain, awarded, time_order, with_offers
from wallet.client import ChainClient

# What is shown of who sold time is what moved, or said to be unknown, however its time and its auctions ended.


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
    """Most of the leaver's loss burns."""
    chain, books = sold(*TWO, auctions=1, loss=OGPU // 100)
    leave(chain, chain.alice)
    chain.start(chain.bob)
    chain.stop()
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
    """Return the names of parties with a complete account that differs from the moved money."""
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
    left_alone, silent_and_not_taken_over, left_in_both_auctions, stopped_in_the_second_auction, taken_over,
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
    assert (provider.lost, provider.why) == (0, "intervals so far: it still works")


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
    assert any("took over" in each for each in found.unknown)
    assert "customer" not in wrong(chain, books, found)


@pytest.mark.parametrize("scene", [*KNOWN, left_by_both])
def test_what_the_newest_events_alone_tell_of_time_is_right_or_said_to_be_unknown(scene: Callable[[], Scene]) -> None:
    chain, books = scene()
    chain.until(TaskState.ENDED)
    newest = whole(chain).told
    for count in range(1, len(newest)):
        found = account(chain, TaskEvents(newest[:count]))
        odd = wrong(chain, books, found)
        assert odd == [] or (odd == [chain.bob.name] and any("took over" in each for each in found.unknown))


# What each party of a task that several compute was paid, lost and has back; and that it can be reckoned again.


def records(chain: TaskChain, number: int) -> AuctionRecords:
    auction = auction_id(chain.task, number)
    bids = {device: bid for device, bid in chain.market.bids.under(auction) if bid is not None}
    return AuctionRecords(chain.market.awards[auction], bids)


def agreed() -> tuple[TaskChain, Books]:
    chain, books, whose = replicated()
    compute(chain, whose, RIGHT, WRONG, RIGHT)
    return chain, books


def silent_one() -> tuple[TaskChain, Books]:
    chain, books, whose = replicated()
    bind(chain, whose[0], 0)
    bind(chain, whose[2], 2)
    chain.until(TaskState.OPENING)
    open_all(chain, (0, whose[0]), (2, whose[2]))
    return chain, books


def undecided() -> tuple[TaskChain, Books]:
    chain, books, whose = replicated()
    compute(chain, whose, RIGHT, WRONG, b"z" * 32)
    return chain, books


ENDS: list[Callable[[], tuple[TaskChain, Books]]] = [agreed, silent_one, undecided]


@pytest.mark.parametrize("end", ENDS)
def test_what_is_shown_is_what_moved(end: Callable[[], tuple[TaskChain, Books]]) -> None:
    chain, books = end()
    task, auctions = chain.now(), [records(chain, 1)]
    told = TaskEvents()  # a node that shows none
    found = payments_of_task(chain.task, task, auctions, shifts_of(task, auctions, told), told, {})
    assert found.unknown == []
    for keys in chain.keys:
        mine = [each for each in found.parties if each.account == keys.stash]
        assert books.change(keys) == sum((each.paid or 0) - (each.lost or 0) for each in mine)
    (customer,) = (each for each in found.parties if each.party == "customer")
    assert customer.paid is not None
    assert customer.lost is not None
    assert spent(books) == customer.paid - customer.lost
    assert found.cost(chain.market.step_fee) == books.before[CUSTOMER] - chain.wealth(CUSTOMER.stash)
    rules = task.rules
    locked = 3 * (money.escrow(rules, PRICE, items=1) + money.customer_bond(rules, PRICE))
    assert customer.returned == locked - customer.lost


@pytest.mark.parametrize("end", ENDS)
def test_every_end_can_be_reckoned_again(end: Callable[[], tuple[TaskChain, Books]]) -> None:
    chain, _ = end()
    task = chain.now()
    draws = [records(chain, DRAWS_FROM + number) for number in range(1, task.draws + 1)]
    checks = check_replicas(task, draws)
    assert checks
    assert [check.says for check in checks if check.is_right is False] == []
    assert all(check.is_right for check in checks if check.what == "draw 1")
    every = check_task(GENESIS_HASH, chain.task, task, 1, [records(chain, 1)])
    assert [check.says for check in every if check.is_right is False] == []


def test_what_is_not_as_the_rules_say_is_named() -> None:
    chain, _ = agreed()
    task = chain.now()
    draws = [records(chain, DRAWS_FROM + 1)]
    swapped = replace(task, slots=(task.slots[0], task.slots[2], task.slots[1]))
    assert check_replicas(swapped, draws)[0].is_right is False
    dearer = replace(task, slots=(*task.slots[:2], replace(task.slots[2], price=1)))
    assert check_replicas(dearer, draws)[0].is_right is False
    for place, outcome in ((1, TaskOutcome.ON_TIME), (0, TaskOutcome.OUTVOTED)):
        slot = replace(task.slots[place], outcome=outcome)
        wrong = replace(task, slots=(*task.slots[:place], slot, *task.slots[place + 1 :]))
        assert check_replicas(wrong, draws)[1].is_right is False


def test_outputs_are_those_that_most_agree_on_or_of_who_is_named() -> None:
    chain, _ = agreed()
    task = chain.now()
    assert [place for place, _ in agreed_results(task)] == [0, 2]
    assert {result.root for result in stated_outputs(task)} == {RIGHT}
    assert [result.root for result in stated_outputs(task, 1)] == [WRONG]
    with pytest.raises(RunBlobError):
        stated_outputs(task, 7)
    with pytest.raises(RunBlobError, match="no agreed result"):
        stated_outputs(undecided()[0].now())


def test_nothing_is_agreed_on_while_it_is_opened() -> None:
    chain, _, whose = replicated()
    for place, keys in enumerate(whose):
        bind(chain, keys, place)
    chain.do(whose[0], open_call(chain, whose[0], 0))
    assert chain.state() is TaskState.OPENING
    assert agreed_results(chain.now()) == []


def test_every_step_says_why_it_waits() -> None:
    chain, _ = ordered()
    assert progress(chain.now()) == "volunteering, 0 devices offered"
    assert "devices for replicas " in why(chain.now())
    offer(chain, *chain.keys[1:5])
    while chain.now().deadline:
        chain.block()
    assert "draws the other replicas" in why(chain.now())
    chain.until(TaskState.STARTING)
    assert "pays a penalty and is out" in why(chain.now())
    chain, _, whose = replicated()
    bind(chain, whose[0], 0)
    assert progress(chain.now()) == "running, 1 of 3 replicas bound"
    assert "without a commitment" in why(chain.now())
    bind(chain, whose[1], 1)
    bind(chain, whose[2], 2, WRONG)
    assert progress(chain.now()) == "opening, 0 of 3 replicas opened"
    assert "and the chain compares" in why(chain.now())
    chain, _, whose = replicated()
    compute(chain, whose, RIGHT, WRONG, RIGHT)
    assert chain.state() is TaskState.ENDED
    assert "1 replica loses its collateral" in why(chain.now())


# What is locked for a task: as much as its customer holds for it, each slot.


def is_told(chain: TaskChain) -> bool:
    at = chain.height.to_bytes(32, "big")
    client = ChainClient(
        StateNode({chain.height: chain.chain.state}), Apis(chain.chain.runtime, ()), GENESIS_HASH, "Development"
    )
    found = asyncio.run(locked(client, chain.task, chain.now(), at))
    kept = asyncio.run(deposit(client, chain.task, chain.now(), at))
    return found + kept == sum(entry.amount for entry in chain.chain.now()[Balances].holds[CUSTOMER.stash])


def test_all_that_a_customer_holds_for_a_task_is_told() -> None:
    chain = TaskChain()
    chain.submit(slots=2)
    assert is_told(chain), "before anybody has a slot"
    chain, _ = awarded()
    chain.start(chain.alice)
    chain.finish(chain.alice)
    assert is_told(chain)
