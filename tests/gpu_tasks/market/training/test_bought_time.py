"""Tasks paid by time: intervals, ends, leavers on both sides, and each payment to the grain."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training.events import MilestoneReported, SlotSettled
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import INTERVALS_MAX, CheckedBy, interval_of
from gpu_tasks.market.training.reputation import FAILURE_TIMES
from gpu_tasks.market.training.tasks import TaskResult, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from simulation.chains.market_chain import CUSTOMER, OGPU, Keys
from task_chain import (
    BOND,
    PRICE,
    RIGHT,
    Books,
    TaskChain,
    a_milestone,
    a_result,
    an_offer,
    an_order,
    forfeit,
    net,
    time_order,
    with_offers,
)

PAY = 7 * OGPU
"""Alice's pay for the whole time: the second price."""
SHARE = PAY // 4
STOOD_BY = PAY // 50
"""Bob's pay for his standby until the first interval."""
ALONE = (6 * OGPU,)
PREPAID = 4 * 30_000
"""For the blocks in which its intervals are paid."""


def bought(*prices: int, **order: Any) -> tuple[TaskChain, Books]:
    """Return Alice's task of four intervals of three blocks. The second stands by at the third price."""
    chain = TaskChain()
    books = Books(chain)
    chain.submit(**{**time_order(), **order})
    books.before[CUSTOMER] -= PREPAID
    chain.auction(with_offers(chain.keys, *(prices or (6 * OGPU, PAY, 8 * OGPU)), blocks=12))
    return chain, books


def begun(*prices: int, **order: Any) -> tuple[TaskChain, Books, Keys, Keys]:
    """Return the same task, started by Alice in the newest block."""
    chain, books = bought(*prices, **order)
    alice, bob = chain.keys[:2]
    chain.start(alice)
    return chain, books, alice, bob


def to_height(chain: TaskChain, passed: int) -> None:
    """Make empty blocks, up to `passed` blocks after the start."""
    while chain.height + 1 < chain.now().started_at + passed:
        chain.block()


def pay_interval(chain: TaskChain, keys: Keys, number: int) -> None:
    """Make the first block in which an interval may be paid, and pay it."""
    task = chain.now()
    to_height(chain, (number - task.behind) * interval_of(task.order))
    chain.report(keys, number)


def paid(chain: TaskChain) -> list[tuple[TaskOutcome, int]]:
    """Return all settlements so far."""
    return [(event.outcome, event.earned) for event in chain.happened(SlotSettled)]


def test_each_interval_is_paid_when_it_is_over_and_the_rest_when_the_time_is_up() -> None:
    chain, books, alice, bob = begun()
    for number in (1, 2, 3):
        pay_interval(chain, alice, number)
        assert books.change(alice) == sum(net(SHARE) for _ in range(number))
        assert chain.now().owed == chain.now().done == chain.now().slots[0].reported == number
    to_height(chain, 12)
    chain.finish(alice)
    assert chain.now().outcome is chain.now().slots[0].outcome is TaskOutcome.TIME_OVER
    assert chain.now().slots[0].result == a_result(alice)
    assert books.change(alice) == 4 * net(SHARE)
    assert books.change(bob) == net(STOOD_BY)
    assert books.change(CUSTOMER) == -PAY - STOOD_BY
    assert chain.is_idle(alice)
    assert chain.is_idle(bob)


def test_an_interval_that_is_not_over_is_not_paid() -> None:
    chain, books, alice, _ = begun()
    to_height(chain, 2)
    chain.do(alice, TrainingMarket.report_milestone(task=chain.task, place=0, milestone=a_milestone(1)), ev.NotDueYet)
    chain.report(alice, 1)
    assert books.change(alice) == net(SHARE)
    chain.do(alice, TrainingMarket.report_milestone(task=chain.task, place=0, milestone=a_milestone(2)), ev.NotDueYet)
    chain.do(
        alice,
        TrainingMarket.report_milestone(task=chain.task, place=0, milestone=a_milestone(1)),
        ev.WrongMilestone,
    )


def test_who_is_late_with_an_interval_wins_no_time_by_it() -> None:
    chain, _, alice, _ = begun()
    to_height(chain, 3 + 2)  # within the grace of three blocks
    chain.report(alice, 1)
    assert chain.now().deadline == chain.now().started_at + 2 * 3 + 3
    pay_interval(chain, alice, 2)
    assert chain.height == chain.now().started_at + 6


@pytest.mark.parametrize(("passed", "due"), [(1, 1), (2, 2), (3, 3), (5, 3)])
def test_a_program_that_ends_is_paid_by_the_block_to_the_end_of_its_interval(passed: int, due: int) -> None:
    chain, books, alice, bob = begun()
    to_height(chain, passed)
    chain.finish(alice)
    assert chain.now().outcome is TaskOutcome.TIME_OVER
    assert books.change(alice) == net(PAY * due // 12)
    assert books.change(bob) == net(STOOD_BY)
    assert books.change(CUSTOMER) == -(PAY * due // 12) - STOOD_BY


def test_a_lease_does_not_end_before_its_time_is_up() -> None:
    chain, books, alice, _ = begun(**time_order(is_lease=True))
    result = TrainingMarket.finish(task=chain.task, place=0, result=a_result(alice))
    chain.do(alice, result, ev.NotDueYet)
    for number in (1, 2, 3):
        pay_interval(chain, alice, number)
    to_height(chain, 11)
    chain.do(alice, result, ev.NotDueYet)
    chain.do(alice, result)
    assert chain.height == chain.now().started_at + 12
    assert books.change(alice) == 4 * net(SHARE)


@pytest.mark.parametrize(("intervals", "passed"), [(0, 1), (0, 3), (0, 5), (2, 7), (3, 12), (3, 14)])
def test_a_customer_that_leaves_pays_the_interval_that_runs_and_its_bond(intervals: int, passed: int) -> None:
    chain, books, alice, _ = begun()
    for number in range(1, intervals + 1):
        pay_interval(chain, alice, number)
    to_height(chain, passed)
    chain.stop()
    assert chain.now().outcome is TaskOutcome.TIME_STOPPED
    assert books.change(alice) == (intervals + 1) * net(SHARE) + forfeit(PAY) // 2
    assert books.change(CUSTOMER) == -(intervals + 1) * SHARE - forfeit(PAY) - STOOD_BY
    assert chain.is_idle(alice)


@pytest.mark.parametrize("intervals", [0, 1, 3])
@pytest.mark.parametrize("says_so", [True, False])
def test_a_provider_that_leaves_loses_its_interval_and_a_part_of_the_rest(intervals: int, says_so: bool) -> None:
    chain, books, alice, bob = begun()
    for number in range(1, intervals + 1):
        pay_interval(chain, alice, number)
    if says_so:
        chain.do(alice, TrainingMarket.leave(task=chain.task))
    else:
        chain.until(*set(TaskState) - {TaskState.RUNNING})
        assert chain.height == chain.now().started_at or chain.now().started_at == 0
    lost = (PAY - intervals * SHARE) // 4
    assert books.change(alice) == intervals * net(SHARE) - lost
    assert books.change(CUSTOMER) == -intervals * SHARE + lost - (STOOD_BY if intervals else 0)
    record = chain.market.provider_records[alice.stash]
    assert record.failed == FAILURE_TIMES * (PAY - intervals * SHARE)
    if intervals:
        assert chain.state() is TaskState.ASKING
        return
    assert (chain.state(), chain.now().slots[0].provider) == (TaskState.STARTING, bob.stash)


def test_a_runner_up_has_the_rest_of_the_time_at_its_price_of_it() -> None:
    chain, books, alice, bob = begun()
    pay_interval(chain, alice, 1)
    chain.do(alice, TrainingMarket.leave(task=chain.task))
    chain.start(bob)
    task, slot = chain.now(), chain.now().slots[0]
    assert (task.state, task.behind, task.milestones, slot.promised) == (TaskState.RUNNING, 1, 3, 9)
    assert slot.price == 8 * OGPU * 3 // 4
    for number in (2, 3):
        pay_interval(chain, bob, number)
    to_height(chain, 9)
    chain.finish(bob)
    assert books.change(bob) == 3 * net(slot.price // 3) + net(STOOD_BY)
    assert chain.now().outcome is TaskOutcome.TIME_OVER


def test_the_rest_of_the_time_is_auctioned_where_nobody_stands_by() -> None:
    chain, _, alice, _ = begun(*ALONE)
    pay_interval(chain, alice, 1)
    chain.do(alice, TrainingMarket.leave(task=chain.task))
    task = chain.now()
    assert (task.state, task.auction, task.milestones, task.terms.blocks_max) == (TaskState.COMMITTING, 2, 3, 9)
    chain.auction(with_offers(chain.keys[1:], 5 * OGPU, blocks=9))
    bob = chain.bob
    chain.start(bob)
    assert chain.now().slots[0].promised == 9
    pay_interval(chain, bob, 2)
    assert paid(chain)[-1] == (TaskOutcome.INTERVAL_PAID, chain.now().slots[0].price // 3)


def test_all_of_the_time_is_promised_whatever_a_bid_says() -> None:
    chain = TaskChain()
    chain.submit(**time_order())
    alice, bob = chain.keys[:2]
    chain.auction({alice: an_offer(6 * OGPU, blocks=1), bob: an_offer(5 * OGPU, blocks=12)})
    task = chain.now()
    assert (task.slots[0].provider, task.slots[0].promised) == (bob.stash, 12)
    assert task.standby is not None
    assert (task.standby.provider, task.standby.promised) == (alice.stash, 12)


@pytest.mark.parametrize(
    "changed",
    [
        {"slots": 2},
        {"segments": 1},
        {"run_blocks": 1},
        {"time_value": 1},
        {"time_value": None},
        {"blocks_max": 13},
        {"blocks_max": 604},
        {"milestones": 0},
        {"milestones": INTERVALS_MAX + 1 - 256},
    ],
)
def test_an_order_of_time_has_one_slot_whole_intervals_and_nothing_to_check(changed: dict[str, Any]) -> None:
    chain = TaskChain()
    order = an_order(**{**time_order(), **changed})
    chain.ask(TrainingMarket.submit(order=order), ev.UnsoundOrder)


@pytest.mark.parametrize(("blocks", "intervals"), [(600, 4), (255, 255), (1, 1)])
def test_an_order_of_time_has_intervals_of_a_block_to_five_minutes(blocks: int, intervals: int) -> None:
    chain = TaskChain()
    chain.submit(**time_order(blocks_max=blocks, milestones=intervals))
    assert chain.now().terms.blocks_max == blocks


def test_time_asks_for_three_tenths_of_the_price_as_collateral_and_has_no_checks() -> None:
    chain, _ = bought()
    task = chain.now()
    assert (task.rules.check_rate_ppm, task.rules.check_ppm) == (0, 0)
    assert task.terms.collateral_min == PRICE * 3 // 10
    exact = chain.market.rules(an_order())
    assert replace(task.rules, check_rate_ppm=0, check_ppm=0, collateral_ppm=0) == replace(
        exact, check_rate_ppm=0, check_ppm=0, collateral_ppm=0
    )


@pytest.mark.parametrize("who", ["bob", "customer", "stranger"])
def test_nobody_leaves_for_another(who: str) -> None:
    chain, _, _, bob = begun()
    call = TrainingMarket.leave(task=chain.task)
    signer = {"bob": bob, "customer": CUSTOMER, "stranger": chain.keys[5]}[who]
    chain.do(signer, call, ev.NotSlotOwner, role="stash" if who == "customer" else "provider")


def test_only_who_is_paid_by_time_leaves_and_only_while_it_runs() -> None:
    chain, _ = bought()
    alice = chain.alice
    chain.do(alice, TrainingMarket.leave(task=chain.task), ev.WrongTaskState)
    chain.start(alice)
    chain.do(alice, TrainingMarket.leave(task=chain.task), None, role="stash")
    exact, _ = bought(**{**time_order(), "checked_by": CheckedBy.EXECUTED, "time_value": None})
    exact.start(exact.keys[0])
    exact.do(exact.keys[0], TrainingMarket.leave(task=exact.task), ev.WrongTaskState)


def test_no_checkpoint_of_bought_time_is_confirmed() -> None:
    chain, _, alice, bob = begun()
    pay_interval(chain, alice, 1)
    hold = TrainingMarket.confirm_checkpoint(task=chain.task, number=1, root=RIGHT)
    chain.ask(hold, ev.NothingToConfirm)
    chain.do(bob, hold, ev.NothingToConfirm)


def test_odd_prices_lose_no_grain_over_their_intervals() -> None:
    chain, books, alice, _ = begun(6 * OGPU, PAY + 1, 8 * OGPU)
    for number in (1, 2, 3):
        pay_interval(chain, alice, number)
    assert [event.milestone.number for event in chain.happened(MilestoneReported)] == [1, 2, 3]
    to_height(chain, 12)
    chain.do(alice, TrainingMarket.finish(task=chain.task, place=0, result=TaskResult(RIGHT, bytes(32), 1)))
    earned = [each for _, each in paid(chain)]
    assert sum(earned) == PAY + 1
    assert earned == [SHARE, SHARE, SHARE, SHARE + 1]
    assert books.change(CUSTOMER) == -(PAY + 1) - (PAY + 1) // 50


def test_blocks_are_paid_for_intervals_when_the_task_is_submitted() -> None:
    chain = TaskChain()
    books = Books(chain)
    chain.submit(**time_order(blocks_max=255, milestones=255))
    assert books.change(CUSTOMER) == -255 * 30_000
    chain.cancel()
    assert books.change(CUSTOMER) == -255 * 30_000 - BOND // 10
