"""What takes units from a device that waits with them, and what that weighs."""

import pytest

from gpu_tasks.market.devices.device_work import RECALL_WEIGHT
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.schedules import STEP_WEIGHT
from gpu_tasks.market.inference.turns import BEGIN_WEIGHT
from gpu_tasks.market.inference.units import UnitState, racer_of
from runtime.encoding.types import Weight
from runtime.frame.schedule import TAKE_WEIGHT, WeightMeter
from simulation.chains.market_chain import (
    OGPU,
    Keys,
    MarketChain,
    attach,
    attestation,
    commit,
    named_keys,
    signed,
    terms,
)
from unit_cases import DRAW_BLOCKS, RIGHT, ahead, device_of, one_device


def test_a_fault_in_what_a_device_is_done_with_sends_back_what_is_behind_too() -> None:
    """A case about an earlier result ends while the device works on another one: that one it may end."""
    chain, only = one_device()
    first, second, third = ahead(chain)
    chain.block(lambda bound: bound[Devices].halt(only.device, b"e" * 32))
    chain.block()
    assert {recalled.unit for recalled in chain.happened(ev.RacerRecalled)} == {second, third}
    held = device_of(chain, only)
    assert (held.assignment, held.behind, held.is_paused) == (first, (), True)
    assert chain.unit(first).state is UnitState.RACING


def test_each_unit_that_is_recalled_is_work_of_its_own() -> None:
    chain, only = one_device(queue=3)
    ahead(chain, 4)
    chain.block(lambda bound: bound[Devices].halt(only.device, b"e" * 32))
    budget = WeightMeter(RECALL_WEIGHT)
    assert len(list(chain.now()[Devices].recalled_units(budget))) == 3
    assert budget.spent.ref_time == 3 * RECALL_WEIGHT.ref_time


def test_what_was_committed_in_the_block_of_a_fault_is_recalled_no_more() -> None:
    chain, only = one_device()
    _, second, third = ahead(chain)
    chain.block(
        lambda bound: bound[Devices].halt(only.device, b"e" * 32), commit(only, second, chain.unit(second), RIGHT)
    )
    chain.block()
    assert [recalled.unit for recalled in chain.happened(ev.RacerRecalled)] == [third]
    chain.block(attach(attestation(only, second, chain.unit(second), RIGHT)))
    assert chain.unit(second).state is UnitState.SETTLED


def three_behind() -> tuple[MarketChain, bytes, list[Keys]]:
    """A unit whose three racers work on others, while three more devices have nothing to do; and its racers."""
    chain = MarketChain(named_keys(12), queue=1)
    busy, idle = chain.validators[:3], chain.validators[3:]
    chain.block(*(signed(one.stash, Devices.pause(device=one.device)) for one in idle))
    chain.blocks(3)
    chain.post(*(terms(OGPU, 1) for _ in busy))
    chain.blocks(DRAW_BLOCKS)
    (unit_id,) = chain.post(terms(OGPU, 3))
    chain.blocks(DRAW_BLOCKS)
    chain.block(*(signed(one.stash, Devices.resume(device=one.device)) for one in idle))
    chain.blocks(2)
    assert [racer.started_at for racer in chain.unit(unit_id).racers] == [0, 0, 0]
    return chain, unit_id, busy


def test_places_that_come_free_one_after_the_other_are_drawn_one_after_the_other() -> None:
    chain, unit_id, (one, other, last) = three_behind()
    chain.block(lambda bound: bound[Devices].halt(one.device, b"e" * 32))
    chain.block()
    chain.block(lambda bound: bound[Devices].halt(other.device, b"e" * 32))
    asked = chain.height
    assert (chain.unit(unit_id).is_refilling, chain.unit(unit_id).recorded_at) == (True, asked)
    chain.blocks(2)
    assert (len(chain.unit(unit_id).racers), chain.unit(unit_id).recorded_at) == (1, asked), "it is not put off"
    chain.block()
    unit = chain.unit(unit_id)
    assert (len(chain.happened(ev.PlaceRefilled)), len(unit.racers)) == (1, 2)
    assert (unit.is_refilling, unit.recorded_at) == (True, chain.height), "the second one is asked for at once"
    chain.blocks(3)
    unit = chain.unit(unit_id)
    assert (len(chain.happened(ev.PlaceRefilled)), len(unit.racers), unit.is_refilling) == (2, 3, False)
    assert racer_of(unit, last.stash) is not None


def test_what_begins_in_the_hook_is_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A close lets go of who was too late, and its device turns to the unit behind."""
    spent: list[int] = []
    hook = InferenceMarket.on_initialize

    def noted(market: InferenceMarket) -> Weight:
        weight = hook(market)
        spent.append(weight.ref_time)
        return weight

    monkeypatch.setattr(InferenceMarket, "on_initialize", noted)
    chain = MarketChain(named_keys(6), queue=1)
    chain.block(*(signed(one.stash, Devices.pause(device=one.device)) for one in chain.validators[2:]))
    chain.blocks(3)
    units = []
    for _ in range(2):
        units += chain.post(terms(OGPU, 2))
        chain.blocks(DRAW_BLOCKS)
    first, second = units
    fast, slow = chain.validators[:2]
    chain.block(commit(fast, first, chain.unit(first), RIGHT))
    chain.blocks(2)
    begun = racer_of(chain.unit(second), slow.stash)
    while begun is not None and not begun.started_at:
        assert not chain.happened(ev.RaceMissed)
        chain.block()
        begun = racer_of(chain.unit(second), slow.stash)
    assert spent[-1] == (STEP_WEIGHT + TAKE_WEIGHT + BEGIN_WEIGHT).ref_time
