"""Failures: no start, death, takeover, auctions of the rest, changes of mind. Each payment to the grain."""

import pytest

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training import money
from gpu_tasks.market.training.events import SlotSettled, TaskReopened
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from simulation.chains.market_chain import CUSTOMER, DEVICE_BOND, OGPU, refused
from task_chain import (
    PRICE,
    RIGHT,
    WRONG,
    TaskChain,
    an_offer,
    awarded,
    finish_and_pass,
    hold,
    net,
    with_offers,
    work,
)

# ------------------------------------------------------------------------------------------------------- no start


def test_who_does_not_start_loses_a_tenth_and_the_standby_has_the_slot() -> None:
    chain, books = awarded()
    alice, bob = chain.keys[:2]
    chain.blocks(5)
    task = chain.now()
    assert (task.state, task.slots[0].provider, task.slots[0].price) == (TaskState.STARTING, bob.stash, 8 * OGPU)
    assert books.change(alice) == -PRICE // 10
    assert books.change(CUSTOMER) == PRICE // 20
    assert chain.is_idle(alice)
    assert not chain.is_idle(bob)
    assert chain.market.provider_records[alice.stash].failed == 5 * 7 * OGPU
    work(chain, bob, milestones=0)
    share = 8 * OGPU // 50
    assert books.change(bob) == net(share)  # it stood by, and took over
    finish_and_pass(chain, bob)
    assert books.change(bob) == net(share) + net(8 * OGPU)


def test_a_bound_standby_that_does_not_start_loses_as_much_and_is_not_paid_for_standing_by() -> None:
    chain, books = awarded()
    alice, bob = chain.keys[:2]
    chain.blocks(10)
    task = chain.now()
    assert (task.state, task.auction, task.slots) == (TaskState.COMMITTING, 2, ())
    assert books.change(alice) == books.change(bob) == -PRICE // 10
    assert books.change(CUSTOMER) == PRICE // 10
    outcomes = [event.outcome for event in chain.happened(SlotSettled)]
    assert outcomes == [TaskOutcome.NOT_STARTED, TaskOutcome.STANDBY_NOT_STARTED]
    assert chain.is_idle(bob)
    assert task.terms.price_max == PRICE
    assert [chain.market.provider_records[keys.stash].failed for keys in (alice, bob)] == [5 * 7 * OGPU, 5 * 8 * OGPU]


def test_without_a_standby_what_was_not_started_is_auctioned_again_and_ends_with_its_auctions() -> None:
    chain, books = awarded(6 * OGPU)
    chain.blocks(5)
    assert (chain.state(), chain.now().auction) == (TaskState.COMMITTING, 2)
    chain.auction(with_offers(chain.keys, 6 * OGPU))
    chain.blocks(5)
    assert (chain.state(), chain.now().outcome) == (TaskState.ENDED, TaskOutcome.NO_AWARD)
    assert books.change(chain.alice) == -2 * PRICE // 10
    assert books.change(CUSTOMER) == 2 * PRICE // 20


def test_of_a_gang_the_one_that_is_missing_is_replaced() -> None:
    chain, books = awarded(5 * OGPU, 6 * OGPU, 7 * OGPU, 8 * OGPU, slots=2)
    first, second = chain.providers()
    third = chain.keys[2]
    chain.start(first)
    chain.blocks(4)
    task = chain.now()
    assert [slot.provider for slot in task.slots] == [first.stash, third.stash]
    assert books.change(second) == -PRICE // 10
    chain.start(third, 1)
    assert chain.state() is TaskState.RUNNING


def test_a_gang_that_lacks_two_is_auctioned_again_and_who_started_loses_nothing() -> None:
    chain, books = awarded(5 * OGPU, 6 * OGPU, 7 * OGPU, 8 * OGPU, slots=3)
    first = chain.chain.keys_of(chain.now().slots[0].provider)
    fourth = chain.keys[3]
    chain.start(first)
    chain.blocks(4)
    assert (chain.state(), chain.now().auction) == (TaskState.COMMITTING, 2)
    assert books.change(first) == 0
    assert books.change(fourth) == net(8 * OGPU // 50)  # it was ready until the end
    assert all(chain.is_idle(keys) for keys in chain.keys)


# ---------------------------------------------------------------------------------------------------------- death


@pytest.mark.parametrize("counted", [0, 1, 2, 3])
def test_who_dies_is_paid_for_what_counted_and_loses_a_quarter_of_the_rest(counted: int) -> None:
    chain, books = awarded()
    alice = chain.alice
    work(chain, alice, milestones=3, counted=counted)
    while not chain.happened(SlotSettled):
        chain.block()
    price = 7 * OGPU
    earned = price * counted // 4
    assert books.change(alice) == net(earned) - (price - earned) // 4
    assert chain.market.provider_records[alice.stash].failed == 5 * (price - earned)
    assert chain.state() is (TaskState.ASKING if counted else TaskState.STARTING)
    assert chain.is_idle(alice)


def test_a_winner_whose_second_name_stands_by_is_not_paid_for_milestones_that_nobody_else_holds() -> None:
    chain, books = awarded()
    alice, bob = chain.keys[:2]
    chain.start(alice)
    for number in (1, 2, 3):
        chain.report(alice, number)
        chain.do(bob, hold(chain, number))
    assert (chain.now().done, chain.now().owed) == (3, 0)
    chain.until(TaskState.ASKING)
    assert books.change(alice) == -7 * OGPU // 4
    assert chain.now().behind == 3  # and yet it is a place to go on from
    assert chain.now().begun_from == RIGHT


def test_what_only_the_standby_holds_is_no_part_of_the_rest_that_it_is_paid_for() -> None:
    chain, books = awarded()
    alice, bob = chain.keys[:2]
    work(chain, alice, milestones=2, counted=1)
    chain.do(bob, hold(chain, 2))
    chain.do(bob, hold(chain, 2), ev.NothingToConfirm)
    assert (chain.now().done, chain.now().owed) == (2, 1)
    chain.until(TaskState.ASKING)
    assert books.change(alice) == net(7 * OGPU // 4) - 3 * 7 * OGPU // 4 // 4
    assert chain.now().deadline == chain.height + chain.now().windows.ask
    chain.start(bob)
    assert (chain.now().slots[0].price, chain.now().slots[0].promised) == (4 * OGPU, 20)


def test_who_took_over_and_is_gone_too_is_asked_no_more() -> None:
    chain = TaskChain(constants={"TrainingMarket.ask_blocks": 7})
    chain.submit()
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU, 8 * OGPU))
    alice, bob = chain.keys[:2]
    work(chain, alice, milestones=2)
    chain.until(TaskState.ASKING)
    assert chain.now().deadline == chain.height + 7
    chain.start(bob)
    assert chain.now().standby is None
    states = set()
    while chain.state() is not TaskState.COMMITTING:
        states.add(chain.state())
        chain.block()
    assert states == {TaskState.RUNNING}


def test_what_the_standby_has_signed_for_the_customer_may_sign_for_too() -> None:
    chain, books = awarded()
    alice, bob = chain.keys[:2]
    chain.start(alice)
    for number in (1, 2):
        chain.report(alice, number)
        chain.do(bob, hold(chain, number))
    held = chain.now().checkpoint
    assert held is not None
    assert held.holder == bob.provider, "as its extrinsic is found again"
    assert chain.happened(ev.MilestoneCounted)[-1] == ev.MilestoneCounted(chain.task, 2, bob.provider)
    chain.count(2)
    held = chain.now().checkpoint
    assert held is not None
    assert held.holder == CUSTOMER.stash
    chain.ask(hold(chain, 2), ev.NothingToConfirm)
    chain.until(TaskState.ASKING)
    earned = 7 * OGPU // 2
    assert books.change(alice) == net(earned) - earned // 4


def test_a_bound_standby_takes_the_whole_over_and_is_paid_its_own_price() -> None:
    chain, books = awarded()
    alice, bob = chain.keys[:2]
    work(chain, alice, milestones=1, counted=0)  # stated, without a holder
    chain.until(TaskState.STARTING)
    task = chain.now()
    assert (task.slots[0].provider, task.slots[0].price, task.milestones) == (bob.stash, 8 * OGPU, 4)
    work(chain, bob, milestones=3)
    finish_and_pass(chain, bob)
    assert books.change(bob) == net(8 * OGPU // 50) + net(8 * OGPU)
    assert books.change(CUSTOMER) == -8 * OGPU - 8 * OGPU // 50 + min(7 * OGPU // 4, task.terms.loss)


def test_a_standby_takes_nothing_over_with_a_device_that_might_not_bid_for_it() -> None:
    """After its release it registers the device again, in a class that the task does not ask for."""
    chain = TaskChain()
    chain.submit(classes=1 << DeviceClass.CPU)
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU, 8 * OGPU))
    alice, bob = chain.keys[:2]
    work(chain, alice, milestones=2)
    device = chain.chain.device(bob)
    chain.do(bob, Devices.unregister_device(device=bob.device), role="stash")
    anew = Devices.register_device(kind=DeviceClass.DATACENTER, uuid_hash=device.uuid_hash, bond=DEVICE_BOND)
    chain.do(bob, anew, role="stash")
    chain.until(TaskState.ASKING)
    chain.do(bob, TrainingMarket.start(task=chain.task, place=0), ev.NotEligible)


def test_a_standby_that_is_bound_no_more_is_asked_first_and_paid_for_what_is_left() -> None:
    chain, books = awarded()
    alice, bob, third = chain.keys[:3]
    work(chain, alice, milestones=2)
    chain.until(TaskState.ASKING)
    chain.do(third, TrainingMarket.start(task=chain.task, place=0), ev.NotSlotOwner)
    assert chain.is_idle(bob)
    chain.start(bob)
    task = chain.now()
    assert (task.state, task.behind, task.milestones, task.slots[0].price) == (TaskState.RUNNING, 2, 2, 4 * OGPU)
    assert task.begun_from == RIGHT
    assert task.slots[0].promised == 20
    assert task.checkpoint is not None
    assert (task.checkpoint.milestone.number, task.checkpoint.holder) == (2, CUSTOMER.stash)
    chain.report(bob, 3)
    chain.count(3)
    finish_and_pass(chain, bob)
    stood_by = net(7 * OGPU // 50)
    assert books.change(bob) == stood_by + net(4 * OGPU)


def test_milestones_of_a_rest_count_from_where_it_began() -> None:
    chain, books = awarded()
    alice, bob = chain.keys[:2]
    work(chain, alice, milestones=2)
    chain.until(TaskState.ASKING)
    chain.start(bob)
    chain.report(bob, 3, root=WRONG)
    chain.ask(hold(chain, 3, WRONG))
    assert chain.happened(ev.MilestoneCounted)[-1] == ev.MilestoneCounted(chain.task, 3, CUSTOMER.stash)
    task = chain.now()
    assert (task.behind, task.done, task.owed, task.begun_from) == (2, 1, 1, RIGHT)
    chain.ask(hold(chain, 3, WRONG), ev.NothingToConfirm)
    chain.until(TaskState.COMMITTING)
    task = chain.now()
    assert (task.behind, task.milestones, task.begun_from) == (3, 1, WRONG)
    assert books.change(bob) == net(7 * OGPU // 50) + net(2 * OGPU) - 2 * OGPU // 4


def test_a_standby_that_is_busy_or_poor_does_not_take_over() -> None:
    chain, _ = awarded()
    alice, bob = chain.keys[:2]
    work(chain, alice, milestones=1)
    first = chain.task
    chain.until(TaskState.ASKING)
    chain.submit()
    offer = an_offer(6 * OGPU)
    chain.do(bob, chain.commit_call(bob, offer))
    start = TrainingMarket.start(task=first, place=0)
    chain.block(refused(bob.provider, start, ev.NotEligible))


def test_what_nobody_takes_over_is_auctioned_with_its_checkpoint_at_what_the_escrow_has_left() -> None:
    chain, books = awarded()
    alice, third = chain.alice, chain.keys[2]
    work(chain, alice, milestones=3)
    chain.until(TaskState.ASKING)
    chain.until(TaskState.COMMITTING)
    task = chain.now()
    reopened = chain.happened(TaskReopened)[-1]
    earned, stood_by = 7 * OGPU * 3 // 4, 7 * OGPU // 50
    left = money.escrow(task.rules, PRICE, items=1) - earned - stood_by
    assert (task.auction, task.behind, task.milestones) == (2, 3, 1)
    assert (task.bids, task.revealed, task.started_at, task.reported_at) == (0, 0, 0, 0), "nobody has bid for the rest"
    assert (reopened.auction, reopened.milestones) == (2, 1)
    assert task.terms.collateral_min == money.collateral_min(task.rules, task.terms.price_max, items=1)
    assert reopened.price_max == task.terms.price_max == money.affordable(task.rules, left, items=1)
    assert money.escrow(task.rules, task.terms.price_max, items=1) <= left
    assert task.terms.blocks_max == 25
    assert task.checkpoint is not None
    assert task.checkpoint.milestone.number == 3
    chain.auction(with_offers(chain.keys[2:], 2 * OGPU, 3 * OGPU, blocks=20))
    assert chain.now().slots[0].price == 3 * OGPU
    chain.start(third)
    finish_and_pass(chain, third)
    assert chain.happened(ev.TaskEnded)[-1].auctions == 2
    assert books.change(third) == net(3 * OGPU)


def test_of_a_gang_who_is_silent_dies_and_the_others_are_paid_for_what_counted() -> None:
    chain, books = awarded(5 * OGPU, 6 * OGPU, 7 * OGPU, 8 * OGPU, slots=2)
    first, second = chain.providers()
    third = chain.keys[2]
    chain.start(first)
    chain.start(second, 1)
    for place, keys in enumerate((first, second)):
        chain.report(keys, 1, place)
    chain.count(1)
    chain.report(first, 2)
    chain.until(TaskState.COMMITTING)
    price = 7 * OGPU
    assert books.change(first) == net(price // 4)
    assert books.change(second) == net(price // 4) - (price - price // 4) // 4
    assert books.change(third) == net(price // 50)
    settled = {event.provider: event.outcome for event in chain.happened(SlotSettled)}
    assert settled == {first.stash: TaskOutcome.PARTNER_DIED, second.stash: TaskOutcome.DIED}
    assert chain.now().behind == 1


def test_a_milestone_in_time_gives_time_for_the_next() -> None:
    chain, _ = awarded()
    alice = chain.alice
    chain.start(alice)
    task = chain.now()
    assert task.deadline == task.started_at + 2 * 10 + 3
    chain.blocks(20)
    chain.report(alice, 1)
    assert chain.now().deadline == chain.height + 23
    chain.blocks(23)
    assert chain.state() is TaskState.RUNNING
    chain.block()
    assert chain.state() is TaskState.STARTING
