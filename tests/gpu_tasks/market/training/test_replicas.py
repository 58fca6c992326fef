"""Replicated tasks: offers, draws, commitments, windows, agreement, and all their payments."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.events import NotOwner
from gpu_tasks.market.devices.records import DeviceClass, device_id_of
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training.bids import DRAWS_FROM, auction_id, tie_seed
from gpu_tasks.market.training.events import ReplicasCompared, WrongResultOpening
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.replicas import agreed, drawn, replica_commitment
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from replica_chain import (
    COLLATERAL,
    LOST,
    PAY,
    SALT,
    begin,
    bind,
    bind_call,
    compute,
    offer,
    open_all,
    open_call,
    ordered,
    outcomes,
    replicated,
    spent,
    workers,
)
from runtime.cryptography.hashing import blake2_256
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU, refused, signed
from task_chain import PRICE, RIGHT, WRONG, TaskChain, a_result, an_order, forfeit, net, with_offers

# ---------------------------------------------------------------------------------------------------------- agreement

THIRD = b"z" * 32


@pytest.mark.parametrize(
    ("roots", "votes", "paid", "cost"),
    [
        ((RIGHT, RIGHT, RIGHT), 3, [net(PAY)] * 3, 3 * PAY),
        ((WRONG, RIGHT, RIGHT), 2, [-COLLATERAL, net(PAY), net(PAY)], 2 * PAY),
        ((RIGHT, WRONG, RIGHT), 2, [net(PAY), -COLLATERAL, net(PAY)], 2 * PAY),
        ((RIGHT, RIGHT, WRONG), 2, [net(PAY), net(PAY), -COLLATERAL], 2 * PAY),
        ((RIGHT, WRONG, THIRD), 0, [0, 0, 0], 0),
    ],
)
def test_the_majority_of_three_is_paid_and_the_collateral_of_the_minority_burns(
    roots: tuple[bytes, ...], votes: int, paid: list[int], cost: int
) -> None:
    """The customer pays the price of each agreeing replica, and gets nothing. Three different results move nothing."""
    chain, books, whose = replicated()
    compute(chain, whose, *roots)
    assert chain.happened(ReplicasCompared)[-1] == ReplicasCompared(chain.task, 3, votes, RIGHT if votes else None)
    assert chain.state() is TaskState.ENDED
    if votes:
        assert outcomes(chain) == [TaskOutcome.ON_TIME if root == RIGHT else TaskOutcome.OUTVOTED for root in roots]
        assert chain.now().outcome is TaskOutcome.ON_TIME
    else:
        assert {*outcomes(chain), chain.now().outcome} == {TaskOutcome.UNDECIDED}
    assert books.changes(*whose) == paid
    assert spent(books) == -cost
    assert all(chain.is_idle(keys) for keys in chain.keys)


@pytest.mark.parametrize("asked", [0, 3 * PRICE])
def test_all_of_an_outvoted_collateral_burns_however_much_the_customer_asks_for(asked: int) -> None:
    chain, books, whose = replicated(collateral_min=asked)
    for call, roots in ((bind_call, (RIGHT, RIGHT, WRONG)), (open_call, (RIGHT, RIGHT, WRONG))):
        chain.block(*(signed(keys.provider, call(chain, keys, n, roots[n])) for n, keys in enumerate(whose)))
    issued = chain.chain.now()[Balances].total_issuance.get()
    chain.block()
    lost = max(asked, COLLATERAL)
    assert issued - chain.chain.now()[Balances].total_issuance.get() == lost + PAY - net(PAY)
    assert books.changes(*whose) == [net(PAY), net(PAY), -lost]
    assert chain.happened(ev.SlotSettled)[-1] == ev.SlotSettled(
        chain.task, 2, whose[2].stash, TaskOutcome.OUTVOTED, 0, lost
    )
    assert [chain.market.provider_records[keys.stash].failed > 0 for keys in whose] == [False, False, True]


def test_a_customer_cannot_cancel_replicas_that_have_committed() -> None:
    chain, _, whose = replicated()
    for place, keys in enumerate(whose):
        bind(chain, keys, place)
    chain.cancel(ev.WrongTaskState)
    open_all(chain, *enumerate(whose))
    assert not list(chain.chain.now()[ResultClaims].claims.items()), "the majority decides, and nobody checks it"


@pytest.mark.parametrize(("second", "lost"), [(RIGHT, COLLATERAL), (WRONG, LOST)])
def test_a_replica_that_sees_the_others_does_not_save_its_collateral_by_silence(second: bytes, lost: int) -> None:
    """Beside a majority it is outvoted. Without one it died, and the others get their collateral back."""
    chain, books, whose = replicated()
    for call, roots in ((bind_call, (RIGHT, second, WRONG)), (open_call, (RIGHT, second))):
        places = range(len(roots))
        chain.block(*(signed(whose[n].provider, call(chain, whose[n], n, roots[n])) for n in places))
    chain.until(TaskState.ENDED)
    others = net(PAY) if second == RIGHT else 0
    assert books.changes(*whose) == [others, others, -lost]


def test_another_metric_is_another_result() -> None:
    assert agreed([(RIGHT, 0), (RIGHT, 1), (RIGHT, 2)], 3) is None
    assert agreed([(RIGHT, 1), (RIGHT, 1)], 3) == ((RIGHT, 1), 2)
    assert agreed([(RIGHT, 1), (RIGHT, 1)], 4) is None, "half is not most"
    assert agreed([], 3) is None


def test_a_program_that_failed_agrees_with_none_that_did_not() -> None:
    chain, _, whose = replicated()
    found = [replace(a_result(keys), metric=0 if place else 1) for place, keys in enumerate(whose)]
    sealed = [
        replica_commitment(GENESIS_HASH, chain.task, place, keys.stash, found[place], SALT)
        for place, keys in enumerate(whose)
    ]
    finish, show = TrainingMarket.finish, TrainingMarket.open_result
    chain.block(
        *(
            signed(keys.provider, finish(task=chain.task, place=place, result=a_result(keys, sealed[place])))
            for place, keys in enumerate(whose)
        )
    )
    chain.block(
        *(
            signed(keys.provider, show(task=chain.task, place=place, result=found[place], salt=SALT))
            for place, keys in enumerate(whose)
        )
    )
    chain.until(TaskState.ENDED)
    assert outcomes(chain) == [TaskOutcome.OUTVOTED, *[TaskOutcome.ON_TIME] * 2]


# -------------------------------------------------------------------------------------------------------- who is drawn


def test_who_is_drawn_can_be_reckoned_from_the_record() -> None:
    chain, _ = ordered()
    offer(chain, *chain.keys[1:7])
    chain.until(TaskState.STARTING)
    draw = auction_id(chain.task, DRAWS_FROM + 1)
    award = chain.market.awards[draw]
    assert award is not None
    assert award.seed is not None
    offered = {device: bid for device, bid in chain.market.bids.under(draw) if bid is not None}
    assert [slot.device for slot in chain.now().slots[1:]] == drawn(offered, award.seed, 2)
    assert {bid.bond for bid in offered.values()} == {1_000 * OGPU, 2_000 * OGPU, 1_500 * OGPU} or len(offered) == 6
    assert [slot.price for slot in chain.now().slots] == [PAY] * 3
    assert [slot.collateral for slot in chain.now().slots] == [COLLATERAL] * 3


def test_an_owner_has_one_place_and_is_drawn_by_the_sum_of_its_bonds() -> None:
    chain, _ = ordered()
    offer(chain, *chain.keys[1:5])
    draw = auction_id(chain.task, DRAWS_FROM + 1)
    bids = {device: bid for device, bid in chain.market.bids.under(draw) if bid is not None}
    first = next(iter(bids.values()))
    many = {bytes([number]) * 32: first for number in range(20)} | bids
    times = 0
    for number in range(200):
        seed = tie_seed(draw, blake2_256(bytes([number])))
        chosen = drawn(many, seed, 4)
        owners = [many[device].provider for device in chosen]
        assert len(set(owners)) == len(owners)
        times += owners[0] == first.provider
    assert 150 < times < 200


def test_large_bonds_are_drawn_oftener() -> None:
    chain, _ = ordered()
    offer(chain, *chain.keys[1:4])
    bids = dict(chain.market.bids.under(auction_id(chain.task, DRAWS_FROM + 1)))
    (heavy, first), (light, second), _ = [(device, bid) for device, bid in sorted(bids.items()) if bid is not None]
    unequal = {heavy: replace(first, bond=9 * OGPU), light: replace(second, bond=OGPU)}
    times = sum(drawn(unequal, blake2_256(bytes([number])), 1) == [heavy] for number in range(250))
    assert 205 < times < 245


def test_who_fills_a_draw_first_has_not_won_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_tasks.market.training.life.replicating.BIDS_MAX", 3)
    chain, books = ordered()
    *first, third, as_small, large = chain.keys[1:6]
    more = [(keys.stash, Devices.bond_device_extra(device=keys.device, value=OGPU)) for keys in (third, large)]
    chain.block(*(signed(stash, call) for stash, call in more))
    offer(chain, *first, third)
    calls = {keys: TrainingMarket.volunteer(task=chain.task, device=keys.device) for keys in (as_small, large)}
    chain.block(refused(as_small.provider, calls[as_small], ev.TooManyBids), signed(large.provider, calls[large]))
    draw = auction_id(chain.task, DRAWS_FROM + 1)
    gone, *left = sorted(first, key=lambda keys: keys.device)
    offered = {device for device, bid in chain.market.bids.under(draw) if bid is not None}
    assert offered == {keys.device for keys in (*left, third, large)}
    assert chain.now().volunteers == 3
    assert chain.is_idle(gone)
    assert books.change(gone) == 0
    chain.until(TaskState.STARTING)
    compute(chain, begin(chain), RIGHT, RIGHT, RIGHT)
    assert chain.now().outcome is TaskOutcome.ON_TIME


def test_too_few_offers_end_the_task_at_nobodys_cost() -> None:
    chain, books = ordered()
    offer(chain, chain.bob)
    chain.until(TaskState.ENDED)
    assert chain.now().outcome is TaskOutcome.NO_AWARD
    chain.blocks(3)
    assert books.changes(*chain.keys) == [0] * len(chain.keys)
    assert spent(books) == 0
    assert all(chain.is_idle(keys) for keys in chain.keys)


def test_too_few_offers_sell_it_again_where_another_auction_is_left() -> None:
    chain, _ = ordered(auctions=2)
    chain.until(TaskState.COMMITTING)
    chain.auction(with_offers(chain.keys, 6 * OGPU, PAY, collateral=COLLATERAL))
    chain.block()
    offer(chain, *chain.keys[1:4])
    chain.until(TaskState.STARTING)
    whose = begin(chain)
    compute(chain, whose, RIGHT, RIGHT, RIGHT)
    assert chain.now().outcome is TaskOutcome.ON_TIME


def test_who_may_offer_a_device() -> None:
    chain, _ = ordered()
    alice, bob, carol, _, eve = chain.keys[:5]
    mine = TrainingMarket.volunteer(task=chain.task, device=bob.device)
    another = device_id_of(alice.stash, b"u" * 32)
    register = Devices.register_device(kind=DeviceClass.CPU, uuid_hash=b"u" * 32, bond=100 * OGPU)
    chain.block(
        refused(alice.provider, TrainingMarket.volunteer(task=chain.task, device=alice.device), ev.NotEligible),
        refused(carol.provider, mine, NotOwner),
        refused(bob.provider, TrainingMarket.volunteer(task=b"?" * 32, device=bob.device), ev.UnknownTask),
        signed(bob.provider, mine),
        refused(bob.provider, mine, ev.DeviceHasBid),
        signed(eve.stash, Devices.pause(device=eve.device)),
        refused(eve.provider, TrainingMarket.volunteer(task=chain.task, device=eve.device), ev.NotEligible),
        signed(alice.stash, register),
        refused(alice.provider, TrainingMarket.volunteer(task=chain.task, device=another), ev.NotEligible),
    )
    offer(chain, carol)
    while chain.now().deadline:
        chain.block()
    dave = chain.keys[3]
    chain.do(dave, TrainingMarket.volunteer(task=chain.task, device=dave.device), ev.WrongTaskState)


# ------------------------------------------------------------------------------------------------ commitments, openings


def test_nothing_is_opened_before_all_are_bound() -> None:
    chain, _, whose = replicated()
    bind(chain, whose[0], 0)
    chain.do(whose[0], open_call(chain, whose[0], 0), ev.WrongTaskState)
    assert chain.now().slots[0].result is None
    bind(chain, whose[1], 1)
    assert chain.state() is TaskState.RUNNING
    bind(chain, whose[2], 2)
    assert chain.state() is TaskState.OPENING


def test_what_is_opened_is_what_one_is_bound_to() -> None:
    chain, _, whose = replicated()
    for place, keys in enumerate(whose):
        bind(chain, keys, place)
    first, second = whose[:2]
    right = open_call(chain, first, 0)
    chain.block(
        refused(first.provider, open_call(chain, first, 0, WRONG), WrongResultOpening),
        refused(first.provider, open_call(chain, first, 0, RIGHT, b"t" * 32), WrongResultOpening),
        refused(second.provider, right, ev.NotSlotOwner),
        refused(CUSTOMER.stash, right, ev.NotSlotOwner),
        refused(first.provider, open_call(chain, first, 7), ev.NotSlotOwner),
        signed(first.provider, right),
        refused(first.provider, right, ev.WrongTaskState),
    )


def test_a_commitment_that_is_copied_cannot_be_opened() -> None:
    chain, books, whose = replicated()
    bind(chain, whose[0], 0)
    copied = chain.now().slots[0].commitment
    assert copied is not None
    chain.do(whose[1], TrainingMarket.finish(task=chain.task, place=1, result=a_result(whose[1], copied)))
    bind(chain, whose[2], 2)
    chain.do(whose[1], open_call(chain, whose[0], 1), WrongResultOpening)
    chain.do(whose[1], open_call(chain, whose[1], 1), WrongResultOpening)
    open_all(chain, (0, whose[0]), (2, whose[2]))
    assert outcomes(chain) == [TaskOutcome.ON_TIME, TaskOutcome.OUTVOTED, TaskOutcome.ON_TIME]
    assert books.change(whose[1]) == -COLLATERAL


def test_who_is_bound_to_nothing_in_time_is_out_and_the_others_are_paid() -> None:
    chain, books, whose = replicated()
    bind(chain, whose[0], 0)
    bind(chain, whose[2], 2)
    chain.until(TaskState.OPENING)
    chain.do(whose[1], TrainingMarket.start(task=chain.task, place=1), ev.WrongTaskState)
    open_all(chain, (0, whose[0]), (2, whose[2]))
    assert books.changes(*whose) == [net(PAY), -LOST, net(PAY)]
    assert spent(books) == -2 * PAY + LOST


def test_one_alone_proves_nothing() -> None:
    chain, books, whose = replicated()
    bind(chain, whose[0], 0)
    chain.until(TaskState.ENDED)
    assert chain.now().outcome is TaskOutcome.NO_AWARD
    assert books.changes(*whose) == [0, -LOST, -LOST]
    assert spent(books) == 2 * LOST


def test_who_does_not_start_is_out() -> None:
    chain, books = ordered()
    offer(chain, *chain.keys[1:7])
    chain.until(TaskState.STARTING)
    whose = workers(chain)
    chain.block(
        *(signed(whose[place].provider, TrainingMarket.start(task=chain.task, place=place)) for place in (0, 1))
    )
    chain.until(TaskState.RUNNING)
    chain.do(whose[2], TrainingMarket.start(task=chain.task, place=2), ev.WrongTaskState)
    bind(chain, whose[0], 0)
    chain.do(whose[2], TrainingMarket.finish(task=chain.task, place=2, result=a_result(whose[2])), ev.DoneAlready)
    bind(chain, whose[1], 1)
    open_all(chain, (0, whose[0]), (1, whose[1]))
    assert outcomes(chain) == [TaskOutcome.ON_TIME, TaskOutcome.ON_TIME, TaskOutcome.NOT_STARTED]
    assert books.change(whose[2]) == -PRICE // 10


# -------------------------------------------------------------------------------------------------------- other ends


def test_the_customer_takes_it_back_while_replicas_are_sought() -> None:
    chain, books = ordered()
    offer(chain, *chain.keys[1:4])
    chain.cancel()
    chain.until(TaskState.ENDED)
    chain.blocks(2)
    assert books.change(chain.alice) == forfeit(PAY) // 2
    assert spent(books) == -forfeit(PAY)
    assert all(chain.is_idle(keys) for keys in chain.keys)


def test_who_is_out_is_not_paid_where_it_is_stopped() -> None:
    chain, books = ordered()
    offer(chain, *chain.keys[1:7])
    chain.until(TaskState.STARTING)
    whose = workers(chain)
    starts = [signed(whose[place].provider, TrainingMarket.start(task=chain.task, place=place)) for place in (0, 1)]
    chain.block(*starts)
    chain.until(TaskState.RUNNING)
    chain.blocks(3)
    chain.stop()
    assert books.change(whose[2]) == -PRICE // 10
    assert books.change(whose[0]) == books.change(whose[1]) > forfeit(PAY) // 2


def test_orders_that_are_not_of_replicas() -> None:
    chain = TaskChain()
    fields: dict[str, Any] = {
        "checked_by": CheckedBy.REPLICATED, "slots": 3, "milestones": 1, "run_blocks": 0
    }  # fmt: skip
    for wrong in ({"slots": 1}, {"slots": 2}, {"slots": 9}, {"milestones": 2}, {"segments": 8}, {"run_blocks": 1}):
        order = an_order(**{**fields, **wrong})
        chain.block(refused(CUSTOMER.stash, TrainingMarket.submit(order=order), ev.UnsoundOrder))
    for slots in (3, 5, 7):
        chain.submit(**{**fields, "slots": slots})


# --------------------------------------------------------------------------------------------------------- to the block


def test_all_are_awaited_for_twice_what_was_promised() -> None:
    chain, _, whose = replicated()
    task = chain.now()
    assert task.deadline == task.started_at + 2 * task.slots[0].promised + task.windows.grace
    for place, keys in enumerate(whose):
        bind(chain, keys, place)
    assert (chain.state(), chain.now().deadline) == (TaskState.OPENING, chain.height + task.windows.reveal)


@pytest.mark.parametrize("late", [0, 1])
def test_who_is_bound_in_the_last_block_that_it_promised_is_in_time(late: int) -> None:
    chain, _, whose = replicated(time_value=OGPU // 100)
    for place, keys in enumerate(whose[:2]):
        bind(chain, keys, place)
    while chain.height + 1 < chain.now().started_at + chain.now().slots[2].promised + late:
        chain.block()
    bind(chain, whose[2], 2)
    open_all(chain, *enumerate(whose))
    assert outcomes(chain)[2] is (TaskOutcome.LATE if late else TaskOutcome.ON_TIME)


def test_who_is_bound_is_paid_for_no_block_behind_that_where_the_customer_stops_it() -> None:
    chain, books, whose = replicated()
    chain.blocks(3)
    bind(chain, whose[0], 0)
    chain.blocks(3)
    chain.stop()
    assert chain.now().outcome is TaskOutcome.CANCELLED_RUNNING
    task = chain.now()
    bound, stopped = (at - task.started_at for at in (task.slots[0].finished_at, chain.height))
    assert (bound, stopped) == (4, 8)
    paid = [net(PAY * blocks // task.slots[0].promised) + forfeit(PAY) // 2 for blocks in (bound, stopped, stopped)]
    assert books.changes(*whose) == paid


# -------------------------------------------------------------------------------------------------------- the draw


def test_two_devices_of_one_owner_are_one_offer() -> None:
    chain, _ = ordered()
    bob = chain.bob
    second = device_id_of(bob.stash, b"u" * 32)
    register = Devices.register_device(kind=DeviceClass.CPU, uuid_hash=b"u" * 32, bond=1_000 * OGPU)
    calls = [TrainingMarket.volunteer(task=chain.task, device=device) for device in (bob.device, second)]
    chain.block(signed(bob.stash, register), *(signed(bob.provider, call) for call in calls))
    assert chain.now().volunteers == 2
    chain.until(TaskState.STARTING, TaskState.ENDED)
    assert chain.now().outcome is TaskOutcome.NO_AWARD
    chain.blocks(2)
    assert chain.is_idle(bob)


def test_a_draw_whose_beacon_is_forgotten_is_made_by_another() -> None:
    chain, _ = ordered()
    offer(chain, *chain.keys[1:4])
    while chain.now().deadline:
        chain.block()
    awaited = chain.now().beacon_at
    chain.blocks(awaited - chain.height - 1)

    def forget(bound: Bound) -> None:
        del bound[Beacon].values[awaited]

    chain.block(forget)
    chain.block()
    assert (chain.state(), chain.now().volunteers) == (TaskState.VOLUNTEERING, 3)
    assert chain.now().beacon_at > awaited
    chain.until(TaskState.STARTING)
    assert len(chain.now().slots) == 3


def test_who_was_offered_to_a_draw_with_too_few_is_free_while_the_task_is_sold_again() -> None:
    chain, books = ordered(auctions=2)
    bob = chain.bob
    offer(chain, bob)
    chain.until(TaskState.COMMITTING)
    assert not chain.is_idle(bob)
    chain.blocks(1)
    assert chain.state() is TaskState.COMMITTING
    assert chain.is_idle(bob)
    assert books.change(bob) == 0
