"""Where roll calls are held: who has proven the least of its class is given work, and nobody else is."""

from collections.abc import Callable

import pytest

from gpu_tasks.market.capacity import events as ev
from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import ROWS_MIN, SIZE_MIN, WorkShape
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.gpu_tasks_api import GpuTasksApi
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.market.training.events import NotEligible
from gpu_tasks.market.training.tasks import task_id_of
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.cryptography.signatures import verify
from runtime.encoding.types import Root
from runtime.frame.api import Apis
from runtime.frame.parameter import ParameterChange
from runtime.frame.runtime import Bound
from runtime.pallets.chain_parameters import ChainParameters
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
SMALL = WorkShape(SIZE_MIN, ROWS_MIN, 1)
PERIOD = 100
DRAW_BLOCKS = 4


def a_chain() -> MarketChain:
    numbers = {"Capacity.roll_calls": 1, "Capacity.period": PERIOD}
    return MarketChain(named_keys(6), constants=numbers, pallets=(*PALLETS, ChainParameters))


def until(chain: MarketChain, height: int) -> None:
    chain.blocks_to(height - 1)


def through_a_roll_call(chain: MarketChain, *answering: Keys) -> None:
    """To the block from which the next roll call stands; who answers does so in time."""
    before = len(chain.happened(ev.RollCalled))
    while len(chain.happened(ev.RollCalled)) == before:
        chain.block()
    called = chain.now()[Capacity].current.get()
    assert called is not None
    until(chain, called.at + times.COMMITS_FROM)
    chain.block(*(signed(one.provider, Capacity.commit(device=one.device, root=ROOT)) for one in answering))
    until(chain, times.rows_at(called) + 1)
    newest = chain.now()[Capacity].current.get()
    assert newest is not None
    shows = (
        (one, Capacity.show_rows(device=one.device, rows=shown_rows(newest.rows_seed, one.device))) for one in answering
    )
    chain.block(*(signed(one.provider, call) for one, call in shows))
    until(chain, times.over_at(called))
    assert not chain.now()[Capacity].in_force.get() or len(chain.happened(ev.RollCalled)) > 1
    chain.block()


def enrol(chain: MarketChain, shape: WorkShape, *owners: Keys) -> None:
    chain.block(*(signed(one.stash, Capacity.enrol(device=one.device, shape=shape)) for one in owners))


def racer_of_a_unit(chain: MarketChain) -> bytes | None:
    """Who is drawn for a unit of one racer; None where it waits. The unit is called off."""
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
    assert chain.now()[Capacity].shown[alice.device]
    chain.block(signed(alice.stash, Capacity.withdraw(device=alice.device)))
    assert not chain.now()[Capacity].has_proven(alice.device, DeviceClass.CPU)
    assert not chain.now()[Capacity].shown[alice.device]


def test_switched_off_everybody_works_at_once_and_switched_on_until_a_roll_call_is_over() -> None:
    chain = a_chain()
    bob = chain.validators[1]
    through_a_roll_call(chain)
    assert not chain.now()[Capacity].has_proven(bob.device, DeviceClass.CPU)
    chain.block(switched(0))
    chain.block()
    assert chain.now()[Capacity].has_proven(bob.device, DeviceClass.CPU)
    called = len(chain.happened(ev.RollCalled))
    chain.blocks(2 * PERIOD)
    assert len(chain.happened(ev.RollCalled)) == called
    chain.block(switched(1))
    assert chain.now()[Capacity].has_proven(bob.device, DeviceClass.CPU)
    through_a_roll_call(chain)
    assert not chain.now()[Capacity].has_proven(bob.device, DeviceClass.CPU)


def switched(value: int) -> Callable[[Bound], None]:
    def step(bound: Bound) -> None:
        change = ParameterChange(Capacity.roll_calls, value)
        bound.dispatch(ChainParameters.set_parameter(change=change), Root())

    return step


@pytest.mark.parametrize("blocks", [2 * PERIOD])
def test_by_default_there_are_no_roll_calls(blocks: int) -> None:
    chain = MarketChain(named_keys(4), constants={"Capacity.period": PERIOD})
    chain.blocks(blocks)
    assert not chain.happened(ev.RollCalled)
    assert chain.now()[Capacity].has_proven(chain.validators[0].device, DeviceClass.DATACENTER)
