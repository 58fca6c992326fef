"""What each party of a task that several compute was paid, lost and has back; and that it can be reckoned again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpu_tasks.client.tasks.payments import payments_of_task
from gpu_tasks.client.tasks.records import progress, why
from gpu_tasks.client.tasks.results import RunBlobError, stated_outputs
from gpu_tasks.client.tasks.shifts import TaskEvents, shifts_of
from gpu_tasks.market.training import money
from gpu_tasks.market.training.bids import DRAWS_FROM, auction_id
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import JURORS
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.tasks.replica_check import agreed_results, check_replicas
from gpu_tasks.tasks.task_check import AuctionRecords, check_task
from replica_chain import PAY, accepted, bind, compute, disputed, offer, open_all, open_call, ordered, replicated
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH
from task_chain import PRICE, RIGHT, WRONG, Books, TaskChain


def records(chain: TaskChain, number: int) -> AuctionRecords:
    auction = auction_id(chain.task, number)
    bids = {device: bid for device, bid in chain.market.bids.under(auction) if bid is not None}
    return AuctionRecords(chain.market.awards[auction], bids)


def agreed() -> tuple[TaskChain, Books]:
    chain, books, whose = replicated()
    compute(chain, whose, RIGHT, WRONG, RIGHT)
    accepted(chain)
    return chain, books


def silent_one() -> tuple[TaskChain, Books]:
    chain, books, whose = replicated()
    bind(chain, whose[0], 0)
    bind(chain, whose[2], 2)
    chain.until(TaskState.OPENING)
    open_all(chain, (0, whose[0]), (2, whose[2]))
    accepted(chain)
    return chain, books


def undecided() -> tuple[TaskChain, Books]:
    chain, books, whose = replicated()
    compute(chain, whose, RIGHT, WRONG, b"z" * 32)
    return chain, books


def convicted() -> tuple[TaskChain, Books]:
    chain, books, _, jury = disputed(WRONG, RIGHT, WRONG)
    compute(chain, jury, RIGHT, RIGHT, WRONG, RIGHT, RIGHT)
    return chain, books


def unheard() -> tuple[TaskChain, Books]:
    chain, books, whose = replicated()
    compute(chain, whose, RIGHT, WRONG, RIGHT)
    chain.dispute()
    chain.until(TaskState.ENDED)
    return chain, books


ENDS: list[Callable[[], tuple[TaskChain, Books]]] = [agreed, silent_one, undecided, convicted, unheard]


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
    assert books.change(CUSTOMER) == customer.paid - customer.lost
    assert found.cost(chain.market.step_fee) == books.before[CUSTOMER] - chain.wealth(CUSTOMER.stash)
    rules = task.rules
    locked = 3 * (money.escrow(rules, PRICE) + money.customer_bond(rules, PRICE)) + JURORS * PAY * bool(task.jury_from)
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
    with pytest.raises(RunBlobError, match="do not agree"):
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
    assert "replicas are sought" in why(chain.now())
    offer(chain, *chain.keys[1:5])
    while chain.now().deadline:
        chain.block()
    assert "draws who computes it too" in why(chain.now())
    chain.until(TaskState.STARTING)
    assert "else it pays for that, and is out" in why(chain.now())
    chain, _, whose = replicated()
    bind(chain, whose[0], 0)
    assert progress(chain.now()) == "running, 1 of 3 replicas bound"
    assert "who is bound to no result" in why(chain.now())
    bind(chain, whose[1], 1)
    bind(chain, whose[2], 2, WRONG)
    assert progress(chain.now()) == "opening, 0 of 3 replicas opened"
    assert "and compared" in why(chain.now())
    chain, _, whose = replicated()
    compute(chain, whose, RIGHT, WRONG, RIGHT)
    assert "1 replica found something else: `ogpu result --place` shows it" in why(chain.now())
    chain.dispute()
    assert "a jury is sought" in why(chain.now())
