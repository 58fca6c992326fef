"""Capacity: roll calls from enrolment to their result, penalties for silence and wrong rows, and eligible devices."""

from collections.abc import Callable
from typing import Any

import pytest

from gpu_tasks.market.capacity import events as ev
from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import (
    ROLL_CALL_BOND,
    ROW_DOMAIN,
    ROWS_MIN,
    SIZE_MIN,
    WorkShape,
    device_seed,
    is_sound,
    operations,
    roll_call_hold,
)
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.devices.events import NotOwner
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.gpu_tasks_api import GpuTasksApi
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.market.training.events import NotEligible
from gpu_tasks.market.training.tasks import task_id_of
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.workloads.matmul_chain.challenge import ChainShape
from gpu_tasks.workloads.matmul_chain.challenge import operations as chain_operations
from gpu_tasks.workloads.matmul_chain.prover import ROW_DOMAIN as PROVER_DOMAIN
from runtime.cryptography.signatures import verify
from runtime.encoding.types import Root
from runtime.frame.api import Apis
from runtime.frame.parameter import ParameterChange
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.chain_parameters import ChainParameters
from runtime.pallets.staking import elections
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    PALLETS,
    Keys,
    MarketChain,
    named_keys,
    refused,
    signed,
    terms,
)
from simulation.pallets.devices import ROOT, shown_rows
from task_chain import an_order

SHAPE = WorkShape(SIZE_MIN, ROWS_MIN, 1_000)
PERIOD = 100


@pytest.fixture
def chain() -> MarketChain:
    return MarketChain(named_keys(4), constants={"Capacity.roll_calls_enabled": 1, "Capacity.period": PERIOD})


def newest(chain: MarketChain) -> RollCall:
    called = chain.now()[Capacity].current.get()
    assert called is not None
    return called


def called(chain: MarketChain) -> RollCall:
    """Make empty blocks until the next roll call begins."""
    before = len(chain.happened(ev.RollCalled))
    while len(chain.happened(ev.RollCalled)) == before:
        chain.block()
    return newest(chain)


def until(chain: MarketChain, height: int) -> None:
    """Make empty blocks, so that the next one is `height`."""
    chain.blocks_to(height - 1)


def enrolled(chain: MarketChain, *owners: Keys) -> RollCall:
    chain.block(*(signed(one.stash, Capacity.enrol(device=one.device, shape=SHAPE)) for one in owners))
    return called(chain)


def answered(chain: MarketChain, *owners: Keys, delay: int = times.COMMITS_FROM) -> RollCall:
    """Run a roll call from here until its rows are shown."""
    at = newest(chain)
    until(chain, at.at + delay)
    chain.block(*(signed(one.provider, Capacity.commit(device=one.device, root=ROOT)) for one in owners))
    until(chain, times.rows_at(at) + 1)
    now = newest(chain)
    shows = (Capacity.show_rows(device=one.device, rows=shown_rows(now.rows_seed, one.device)) for one in owners)
    chain.block(*(signed(one.provider, show) for one, show in zip(owners, shows, strict=True)))
    until(chain, times.inspectors_at(at) + 1)
    return newest(chain)


def ended(chain: MarketChain) -> None:
    until(chain, times.inspectors_at(newest(chain)) + times.INSPECT_BLOCKS + 1)
    chain.block()


def held(chain: MarketChain, one: Keys) -> int:
    return chain.now()[Balances].held(one.stash, roll_call_hold(one.device))


def proven(chain: MarketChain, one: Keys) -> int:
    return chain.now()[Capacity].proven(one.device)


def test_from_enrolment_to_what_stands(chain: MarketChain) -> None:
    alice = chain.validators[0]
    enrolled(chain, alice)
    chain.block()
    answered(chain, alice)
    assert proven(chain, alice) == 0
    ended(chain)
    assert proven(chain, alice) == operations(SHAPE) // (times.COMMITS_FROM * times.UNIT) > 0
    assert chain.now()[Capacity].has_proven(alice.device, DeviceClass.CPU)


def test_a_later_commit_proves_less(chain: MarketChain) -> None:
    alice = chain.validators[0]
    enrolled(chain, alice)
    answered(chain, alice, delay=times.COMMITS_TO)
    ended(chain)
    assert proven(chain, alice) == operations(SHAPE) // (times.COMMITS_TO * times.UNIT)


def test_what_was_proven_ends_with_the_next_roll_call_and_silence_costs_the_bond(chain: MarketChain) -> None:
    alice = chain.validators[0]
    enrolled(chain, alice)
    answered(chain, alice)
    ended(chain)
    called(chain)
    assert proven(chain, alice) > 0
    ended(chain)
    assert proven(chain, alice) == 0
    bond = held(chain, alice)
    chain.block(signed(alice.stash, Capacity.withdraw(device=alice.device)))
    assert held(chain, alice) == 0 < bond
    assert [one.amount for one in chain.happened(ev.RollCallBondLost)] == [bond]


def test_who_was_silent_commits_with_a_new_bond(chain: MarketChain) -> None:
    alice = chain.validators[0]
    enrolled(chain, alice)
    ended(chain)
    called(chain)
    answered(chain, alice)
    assert len(chain.happened(ev.RollCallBondLost)) == 1
    assert held(chain, alice) == chain.now()[Capacity].bond
    ended(chain)
    assert proven(chain, alice) > 0


def test_who_enrols_later_answers_for_no_roll_call_before(chain: MarketChain) -> None:
    alice, bob = chain.validators[:2]
    enrolled(chain, alice)
    ended(chain)
    chain.block(signed(bob.stash, Capacity.enrol(device=bob.device, shape=SHAPE)))
    before = chain.now()[Balances].free_balance(bob.stash)
    bond = held(chain, bob)
    chain.block(signed(bob.stash, Capacity.withdraw(device=bob.device)))
    assert chain.now()[Balances].free_balance(bob.stash) == before + bond
    assert not chain.happened(ev.RollCallBondLost)


def test_who_answers_gets_the_bond_back(chain: MarketChain) -> None:
    alice = chain.validators[0]
    enrolled(chain, alice)
    chain.block(refused(alice.stash, Capacity.withdraw(device=alice.device), ev.RollCallOpen))
    answered(chain, alice)
    ended(chain)
    chain.block(signed(alice.stash, Capacity.withdraw(device=alice.device)))
    assert not chain.happened(ev.RollCallBondLost)
    assert held(chain, alice) == 0
    assert proven(chain, alice) == 0
    assert not list(chain.now()[Capacity].proofs.items())


def test_who_answers_each_roll_call_has_proven_something_all_the_time_and_keeps_two_proofs(chain: MarketChain) -> None:
    alice = chain.validators[0]
    enrolled(chain, alice)
    for number in (1, 2, 3):
        answered(chain, alice)
        kept = [each for each, _ in chain.now()[Capacity].proofs.under(alice.device)]
        assert sorted(kept) == list(range(max(1, number - 1), number + 1))
        assert (proven(chain, alice) > 0) is (number > 1)
        ended(chain)
        assert proven(chain, alice) > 0
        called(chain)
    assert not chain.happened(ev.RollCallBondLost)


@pytest.mark.parametrize(("objections", "stands"), [(1, True), (2, False)])
def test_two_of_three_inspectors_end_a_proof(chain: MarketChain, objections: int, *, stands: bool) -> None:
    alice = chain.validators[0]
    enrolled(chain, alice)
    now = answered(chain, alice)
    drawn = chain.now()[Capacity].inspectors(now, alice.device, alice.stash)
    assert len(drawn) == 3
    assert alice.stash not in drawn
    said = Capacity.object(device=alice.device)
    chain.block(
        *(signed(one, said) for one in drawn[:objections]),
        refused(drawn[0], said, ev.NotInspector),
        refused(alice.stash, said, ev.NotInspector),
    )
    ended(chain)
    assert (proven(chain, alice) > 0) is stands
    chain.block(signed(alice.stash, Capacity.withdraw(device=alice.device)))
    assert bool(chain.happened(ev.RollCallBondLost)) is not stands


def test_inspectors_stay_who_they_are_when_the_set_changes(chain: MarketChain) -> None:
    """Otherwise six could object to one device: three of the set at the draw, and three of the next one."""
    alice = chain.validators[0]
    enrolled(chain, alice)
    now = answered(chain, alice)
    bound = chain.now()
    stake, capacity = bound[TrustStake], bound[Capacity]
    drawn = capacity.inspectors(now, alice.device, alice.stash)
    following = stake.beacon.epoch() + 1
    elections.seat(stake, following, tuple(seat for seat in stake.active_set.get() if seat.stash != drawn[0]))
    stake.last_elected_epoch.set(following)
    stake.system.number.set(following * stake.beacon.epoch_blocks + 1)
    assert capacity.inspectors(now, alice.device, alice.stash) == drawn


def test_what_was_not_shown_nobody_objects_to(chain: MarketChain) -> None:
    alice = chain.validators[0]
    at = enrolled(chain, alice)
    until(chain, at.at + times.COMMITS_FROM)
    chain.block(signed(alice.provider, Capacity.commit(device=alice.device, root=ROOT)))
    until(chain, times.inspectors_at(at) + 1)
    drawn = chain.now()[Capacity].inspectors(newest(chain), alice.device, alice.stash)
    chain.block(refused(drawn[0], Capacity.object(device=alice.device), ev.NothingCommitted))


def test_who_is_no_owner_and_what_is_no_work(chain: MarketChain) -> None:
    alice, bob = chain.validators[:2]
    enrol: Any = Capacity.enrol
    chain.block(
        refused(bob.stash, enrol(device=alice.device, shape=SHAPE), NotOwner),
        refused(alice.stash, enrol(device=alice.device, shape=WorkShape(1, ROWS_MIN, 1)), ev.UnsoundWork),
        refused(alice.stash, Capacity.withdraw(device=alice.device), ev.NotEnrolled),
        refused(alice.stash, Capacity.commit(device=alice.device, root=ROOT), ev.NotEnrolled),
        signed(alice.stash, enrol(device=alice.device, shape=SHAPE)),
        refused(alice.stash, enrol(device=alice.device, shape=SHAPE), ev.AlreadyEnrolled),
        refused(bob.stash, Capacity.withdraw(device=alice.device), NotOwner),
        refused(alice.stash, Capacity.commit(device=alice.device, root=ROOT), ev.WrongTime),
    )


def test_nothing_counts_before_or_after_its_time(chain: MarketChain) -> None:
    alice, bob = chain.validators[:2]
    now = enrolled(chain, alice)
    commit, rows = Capacity.commit(device=alice.device, root=ROOT), Capacity.show_rows(device=alice.device, rows=())
    late = Capacity.enrol(device=bob.device, shape=SHAPE)
    until(chain, now.at + times.COMMITS_FROM - 1)
    chain.block(refused(alice.stash, commit, ev.WrongTime), signed(bob.stash, late))
    chain.block(
        refused(alice.stash, rows, ev.WrongTime),
        refused(bob.stash, Capacity.commit(device=bob.device, root=ROOT), ev.NotEnrolled),
        refused(bob.stash, commit, NotOwner),
        refused(bob.provider, commit, NotOwner),
        signed(alice.stash, commit),
        refused(alice.stash, commit, ev.CommittedAlready),
    )
    until(chain, times.rows_at(now))
    now = newest(chain)
    chain.block(refused(alice.stash, rows, ev.WrongRows))
    good = shown_rows(newest(chain).rows_seed, alice.device)
    turned = Capacity.show_rows(device=alice.device, rows=(good[1], good[0], *good[2:]))
    chain.block(
        refused(alice.stash, turned, ev.WrongRows),
        refused(alice.stash, Capacity.object(device=alice.device), ev.WrongTime),
        refused(bob.stash, Capacity.show_rows(device=alice.device, rows=good), NotOwner),
        refused(bob.provider, Capacity.show_rows(device=alice.device, rows=good), NotOwner),
        signed(alice.stash, Capacity.show_rows(device=alice.device, rows=good)),
        refused(alice.stash, Capacity.show_rows(device=alice.device, rows=good), ev.NothingCommitted),
    )


def test_periods_have_one_roll_call_each_where_nobody_expects_it(chain: MarketChain) -> None:
    chain.blocks(8 * PERIOD)
    at = chain.now()[Capacity].current.get()
    assert at is not None
    assert at.number in (7, 8)
    begun = {times.next_at(0, PERIOD, bytes([value])) for value in range(256)}
    assert begun == set(range(1, 1 + PERIOD - times.CALL_BLOCKS))


def test_the_greatest_claim_too_much_is_a_fifth() -> None:
    """The author of the seed's block computes from the slot before, for any slot of the commit."""
    for gap in range(1, 9):
        for delay in range(times.COMMITS_FROM, times.COMMITS_TO + 1):
            slot_before, at_slot = 100, 100 + gap
            commit_slot = at_slot + delay
            computed = 7 * times.UNIT * (commit_slot - slot_before)
            assert 5 * times.rate(computed, slot_before + 1, commit_slot) <= 6 * 7


def test_chain_and_workload_agree() -> None:
    assert ROW_DOMAIN == PROVER_DOMAIN
    assert operations(SHAPE) == chain_operations(ChainShape(SHAPE.size, SHAPE.rows, SHAPE.rounds))
    assert is_sound(SHAPE)
    assert device_seed(bytes(32), b"a" * 32) != device_seed(bytes(32), b"b" * 32)
    assert ROLL_CALL_BOND.name == "RollCallBond"


# ---------------------------------------------------------------------------------------------------- who is given work


SMALL = WorkShape(SIZE_MIN, ROWS_MIN, 1)
DRAW_BLOCKS = 4


def a_chain() -> MarketChain:
    numbers = {"Capacity.roll_calls_enabled": 1, "Capacity.period": PERIOD}
    return MarketChain(named_keys(6), constants=numbers, pallets=(*PALLETS, ChainParameters))


def through_a_roll_call(chain: MarketChain, *answering: Keys) -> None:
    """Run to the block from which the next roll call counts. The `answering` devices answer in time."""
    at = called(chain)
    answered(chain, *answering)
    until(chain, times.over_at(at))
    assert not chain.now()[Capacity].is_enforced.get() or len(chain.happened(ev.RollCalled)) > 1
    chain.block()


def enrol(chain: MarketChain, shape: WorkShape, *owners: Keys) -> None:
    chain.block(*(signed(one.stash, Capacity.enrol(device=one.device, shape=shape)) for one in owners))


def racer_of_a_unit(chain: MarketChain) -> bytes | None:
    """Return the racer of a unit for one, None while it waits. The unit is cancelled afterwards."""
    (unit,) = chain.post(terms(racers=1, sealed_at=chain.height - 1))
    chain.blocks(DRAW_BLOCKS)
    found = chain.unit(unit)
    return found.racers[0].owner if found.state is UnitState.RACING else None


def test_everybody_works_until_the_first_roll_call_is_over_and_then_who_has_proven_enough() -> None:
    chain = a_chain()
    alice, bob = chain.validators[:2]
    enrol(chain, SHAPE, alice)
    enrol(chain, SMALL, bob)
    assert all(chain.now()[Capacity].has_proven(one.device, DeviceClass.DATACENTER) for one in chain.validators)
    through_a_roll_call(chain, alice, bob)
    asked = GpuTasksApi(Apis(chain.runtime, (GpuTasksApi,)), chain.state, bytes(32), verify)
    status = asked.capacity(alice.device)
    assert status is not None
    assert (status.has_proven, len(status.rows), len(status.inspectors)) == (True, 16, 3)
    assert status.proven == chain.now()[Capacity].proven(alice.device) >= status.rate_min
    assert asked.capacity(bytes(32)) is None
    capacity = chain.now()[Capacity]
    assert [capacity.has_proven(one.device, DeviceClass.CPU) for one in chain.validators] == [True] + 5 * [False]
    assert capacity.proven(bob.device) < capacity.rate_min(DeviceClass.CPU)
    assert not capacity.has_proven(alice.device, DeviceClass.DATACENTER)
    assert racer_of_a_unit(chain) == alice.stash
    assert racer_of_a_unit(chain) is None, "the only device that has proven enough is at work"


def test_a_unit_that_sleeps_since_nobody_has_proven_anything_wakes_as_somebody_has() -> None:
    chain = a_chain()
    through_a_roll_call(chain)
    enrol(chain, SHAPE, chain.validators[2])
    (unit,) = chain.post(terms(racers=1, sealed_at=chain.height - 1))
    chain.blocks(DRAW_BLOCKS)
    assert chain.unit(unit).asleep_since
    through_a_roll_call(chain, chain.validators[2])
    assert chain.unit(unit).asleep_since
    chain.blocks(2 + DRAW_BLOCKS)
    assert [racer.owner for racer in chain.unit(unit).racers] == [chain.validators[2].stash]
    assert not list(chain.now()[Capacity].returning.waiting.items())


def test_before_roll_calls_are_in_force_no_device_returns_to_work() -> None:
    """Every device may work then, so no sleeping unit waits for one: a return would only spend the block's budget."""
    chain = a_chain()
    alice = chain.validators[0]
    enrol(chain, SHAPE, alice)
    called(chain)
    answered(chain, alice)
    capacity = chain.now()[Capacity]
    assert [told.device for told in chain.happened(ev.RowsOpened)] == [alice.device]
    assert not capacity.is_enforced.get()
    assert not list(capacity.returning.waiting.items())


def test_a_device_that_proved_too_little_before_wakes_sleeping_units_as_it_proves_enough() -> None:
    chain = a_chain()
    device = chain.validators[2]
    shape = WorkShape(SIZE_MIN, ROWS_MIN, 10 * times.COMMITS_FROM * times.UNIT // operations(SMALL) + 1)
    enrol(chain, shape, device)
    called_at = called(chain)
    answered(chain, device, delay=times.COMMITS_TO)
    until(chain, times.over_at(called_at))
    chain.block()
    assert 0 < proven(chain, device) < chain.now()[Capacity].rate_min(DeviceClass.CPU)
    (unit,) = chain.post(terms(racers=1, sealed_at=chain.height - 1))
    chain.blocks(DRAW_BLOCKS)
    assert chain.unit(unit).asleep_since
    through_a_roll_call(chain, device)
    assert chain.now()[Capacity].has_proven(device.device, DeviceClass.CPU)
    chain.blocks(2 + DRAW_BLOCKS)
    assert [racer.owner for racer in chain.unit(unit).racers] == [device.stash]


def test_who_has_proven_too_little_cannot_bid() -> None:
    chain = a_chain()
    alice, bob = chain.validators[:2]
    enrol(chain, SHAPE, alice)
    through_a_roll_call(chain, alice)
    chain.block(signed(CUSTOMER.stash, TrainingMarket.submit(order=an_order())))
    task = task_id_of(GENESIS_HASH, CUSTOMER.stash, 0)
    bids = [TrainingMarket.commit_bid(task=task, device=one.device, commitment=bytes(32)) for one in (alice, bob)]
    chain.block(refused(bob.provider, bids[1], NotEligible), signed(alice.provider, bids[0]))


def test_what_was_proven_opens_nothing_once_it_is_withdrawn() -> None:
    chain = a_chain()
    alice = chain.validators[0]
    enrol(chain, SHAPE, alice)
    through_a_roll_call(chain, alice)
    assert chain.now()[Capacity].opened_rows[alice.device]
    chain.block(signed(alice.stash, Capacity.withdraw(device=alice.device)))
    assert not chain.now()[Capacity].has_proven(alice.device, DeviceClass.CPU)
    assert not chain.now()[Capacity].opened_rows[alice.device]


def test_switched_off_everybody_works_at_once_and_switched_on_until_a_roll_call_is_over() -> None:
    chain = a_chain()
    bob = chain.validators[1]
    through_a_roll_call(chain)
    assert not chain.now()[Capacity].has_proven(bob.device, DeviceClass.CPU)
    chain.block(switched(0))
    chain.block()
    assert chain.now()[Capacity].has_proven(bob.device, DeviceClass.CPU)
    count = len(chain.happened(ev.RollCalled))
    chain.blocks(2 * PERIOD)
    assert len(chain.happened(ev.RollCalled)) == count
    chain.block(switched(1))
    assert chain.now()[Capacity].has_proven(bob.device, DeviceClass.CPU)
    through_a_roll_call(chain)
    assert not chain.now()[Capacity].has_proven(bob.device, DeviceClass.CPU)


def switched(value: int) -> Callable[[Bound], None]:
    def step(bound: Bound) -> None:
        change = ParameterChange(Capacity.roll_calls_enabled, value)
        bound.dispatch(ChainParameters.set_parameter(change=change), Root())

    return step


@pytest.mark.parametrize("blocks", [2 * PERIOD])
def test_by_default_there_are_no_roll_calls(blocks: int) -> None:
    chain = MarketChain(named_keys(4), constants={"Capacity.period": PERIOD})
    chain.blocks(blocks)
    assert not chain.happened(ev.RollCalled)
    assert chain.now()[Capacity].has_proven(chain.validators[0].device, DeviceClass.DATACENTER)
