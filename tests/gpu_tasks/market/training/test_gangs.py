"""Gangs: counting from the start of all, two places of one provider, and the pay of each place."""

from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass, device_id_of
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training import money
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import TASK_ESCROW, TaskState, slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.holds import Hold
from simulation.chains.dispute_chain import voter_steps
from simulation.chains.market_chain import CUSTOMER, OGPU, Keys, signed
from task_chain import BOND, COLLATERAL, PRICE, RIGHT, Books, TaskChain, an_offer, forfeit, net, with_offers
from unit_cases import vote_for

SECOND = b"2" * 32


def gang_of_two(
    chain: TaskChain | None = None, order: dict[str, int] | None = None, **bids: int
) -> tuple[TaskChain, Books, list[Keys]]:
    """Return a task awarded to Alice and Bob, in this order, with Charlie as standby."""
    chain = chain or TaskChain()
    books = Books(chain)
    chain.submit(slots=2, **(order or {}))
    chain.auction(with_offers(chain.keys, 5 * OGPU, 6 * OGPU, 8 * OGPU, **bids))
    gang = chain.keys[:2]
    assert [slot.provider for slot in chain.now().slots] == [keys.stash for keys in gang]
    return chain, books, gang


def two_places_of_alice() -> tuple[TaskChain, Books]:
    """Return a gang of two places, both Alice's with two devices. Bob stands by."""
    chain = TaskChain(size=14)
    alice, bob = chain.keys[:2]
    register = Devices.register_device(kind=DeviceClass.CPU, uuid_hash=SECOND, bond=100 * OGPU)
    chain.block(signed(alice.stash, register))
    books = Books(chain)
    chain.submit(slots=2)
    bids = ((alice, b"", 5), (alice, device_id_of(alice.stash, SECOND), 6), (bob, b"", 7))
    chain.block(*(signed(k.provider, chain.commit_call(k, an_offer(price * OGPU), d)) for k, d, price in bids))
    chain.until(TaskState.REVEALING)
    chain.block(*(signed(k.provider, chain.reveal_call(k, an_offer(price * OGPU), d)) for k, d, price in bids))
    chain.until(TaskState.STARTING)
    return chain, books


# ------------------------------------------------------------------------------------------------------------ its time


def test_who_starts_before_its_partner_is_neither_late_nor_paid_for_it() -> None:
    chain, _, gang = gang_of_two(blocks=4)
    chain.start(gang[0])
    chain.block()
    chain.start(gang[1], 1)
    chain.blocks(2)
    chain.finish(gang[0])
    finish_and_pass_second(chain, gang[1])
    task = chain.now()
    assert task.slots[0].finished_at - task.slots[0].started_at > 4 >= task.slots[0].finished_at - task.started_at
    assert [slot.outcome for slot in task.slots] == [TaskOutcome.ON_TIME] * 2


def finish_and_pass_second(chain: TaskChain, keys: Keys) -> None:
    """State the other result, and let both claims pass."""
    chain.finish(keys, 1)
    chain.until(TaskState.ENDED)


def test_who_waits_for_a_partner_is_not_late() -> None:
    chain, books, (alice, bob) = gang_of_two(blocks=8, order={"time_value": PRICE})
    chain.start_all()
    for number in (1, 2, 3):
        chain.report(alice, number)
        while chain.height < chain.now().deadline - 1:  # until it would count as dead
            chain.block()
        chain.report(bob, number, 1)
    chain.finish(alice)
    finish_and_pass_second(chain, bob)
    task = chain.now()
    assert task.slots[0].finished_at - task.started_at > 8
    assert [slot.outcome for slot in task.slots] == [TaskOutcome.ON_TIME, TaskOutcome.LATE]
    assert books.change(alice) == net(task.slots[0].price)
    assert books.change(bob) == net(task.slots[1].price) - COLLATERAL


def test_a_stop_charges_nobody_for_a_partner_that_is_late() -> None:
    chain, books, (alice, bob) = gang_of_two(blocks=4, order={"time_value": PRICE})
    chain.start_all()
    chain.report(alice, 1)
    chain.blocks(3)
    chain.stop()
    prices = [slot.price for slot in chain.now().slots]
    assert books.change(alice) == net(prices[0]) + forfeit(prices[0]) // 2
    assert books.change(bob) == net(prices[1]) + forfeit(prices[1]) // 2 - 5 * PRICE


def test_a_gang_that_is_stopped_is_paid_for_the_blocks_since_all_had_started() -> None:
    chain, books, gang = gang_of_two()
    chain.start(gang[0])
    chain.block()
    chain.start(gang[1], 1)
    chain.blocks(9)
    chain.stop()
    price = 8 * OGPU
    earned = price * 10 // 40
    assert books.changes(*gang) == [earned - earned // 50 + forfeit(price) // 2] * 2


def test_a_gang_has_the_time_of_its_slowest() -> None:
    chain = TaskChain()
    chain.submit(slots=2)
    alice, bob = chain.keys[:2]
    chain.auction({alice: an_offer(5 * OGPU, blocks=40), bob: an_offer(5 * OGPU, blocks=82)})
    assert sorted(slot.promised for slot in chain.now().slots) == [40, 82]
    for place, slot in enumerate(chain.now().slots):
        chain.start(chain.chain.keys_of(slot.provider), place)
    task = chain.now()
    assert task.deadline == task.started_at + 2 * 21 + 3  # a fourth of 82 blocks, rounded up


def test_the_rest_of_a_gang_costs_no_more_than_the_emptiest_escrow_has() -> None:
    chain = TaskChain()
    chain.submit(slots=2)
    alice, bob, charlie = chain.keys[:3]
    bids = {alice: an_offer(OGPU, blocks=10), bob: an_offer(OGPU, blocks=90), charlie: an_offer(5 * OGPU, blocks=90)}
    chain.auction(bids)
    prices = [slot.price for slot in chain.now().slots]
    assert prices[0] > prices[1]
    gang = chain.start_all()
    for number in (1, 2):
        for place, keys in enumerate(gang):
            chain.report(keys, number, place)
        chain.count(number)
    chain.until(TaskState.COMMITTING)
    task = chain.now()
    holds = [Hold(TASK_ESCROW, slot_case(chain.task, place)) for place in range(2)]
    left = [chain.market.lock.locked(CUSTOMER.stash, hold) for hold in holds]
    assert left[0] < left[1]
    assert money.escrow(task.rules, task.terms.price_max, items=1) <= left[0]


# ------------------------------------------------------------------------------------------------ one place of several


def test_who_loses_one_of_its_two_places_is_told_of_the_other() -> None:
    chain, books = two_places_of_alice()
    alice, bob = chain.keys[:2]
    chain.start(alice)
    while chain.now().slots[1].provider == alice.stash:
        chain.block()
    assert [slot.provider for slot in chain.now().slots] == [alice.stash, bob.stash]
    assert set(chain.market.duties.under(alice.stash)) == {(chain.task, True)}
    assert books.change(alice) == -PRICE // 10


def reported(chain: TaskChain, verdict: Verdict) -> tuple[Books, list[Keys]]:
    """Let the second provider of a gang report the input, and voters decide with this verdict."""
    _, books, gang = gang_of_two(chain)
    chain.do(gang[1], TrainingMarket.report_input(task=chain.task, place=1))
    while chain.state() is TaskState.DISPUTED:
        chain.block(*voter_steps(chain.chain, vote_for(verdict)))
    return books, gang


def test_an_input_that_is_missing_is_missing_for_every_place() -> None:
    chain = TaskChain(size=14)
    books, gang = reported(chain, Verdict.UNAVAILABLE)
    assert chain.now().outcome is TaskOutcome.INPUT_MISSING
    assert books.changes(*gang) == [forfeit(8 * OGPU) // 2] * 2
    stood_by = 8 * OGPU // 50
    assert books.change(CUSTOMER) + 2 * 2 * 30_000 == -BOND - forfeit(8 * OGPU) - stood_by


def test_who_reported_a_good_input_loses_its_place_whichever_that_is() -> None:
    chain = TaskChain(size=14)
    books, gang = reported(chain, Verdict.RIGHT)
    assert [slot.provider for slot in chain.now().slots] == [gang[0].stash, chain.keys[2].stash]
    assert books.changes(*gang) == [0, -PRICE // 10]


def test_whoever_lies_in_both_of_its_places_loses_both_collaterals() -> None:
    chain, books = two_places_of_alice()
    alice = chain.alice
    chain.start_all()
    for place, root in enumerate((b"w" * 32, b"o" * 32)):
        chain.finish(alice, place, root)
    while chain.state() is TaskState.DISPUTED:
        chain.block(*voter_steps(chain.chain, vote_for(Verdict.RIGHT, RIGHT)))
    assert chain.now().outcome is TaskOutcome.LIED
    assert books.change(alice) == -2 * COLLATERAL
    assert [event.lost for event in chain.happened(ev.SlotSettled)] == [COLLATERAL] * 2
    assert not list(chain.market.duties.items())


def test_whoever_lies_in_one_of_its_places_works_on_in_the_other() -> None:
    chain, books = two_places_of_alice()
    alice = chain.alice
    chain.start_all()
    for place, root in enumerate((b"w" * 32, RIGHT)):
        chain.finish(alice, place, root)
    while chain.state() is TaskState.DISPUTED:
        chain.block(*voter_steps(chain.chain, vote_for(Verdict.RIGHT, RIGHT)))
    assert [slot.outcome for slot in chain.now().slots] == [TaskOutcome.LIED, None]
    assert chain.market.duties[alice.stash, chain.task]
    chain.until(TaskState.ENDED)
    assert books.change(alice) == net(chain.now().slots[1].price) - COLLATERAL
    assert not list(chain.market.duties.items())
