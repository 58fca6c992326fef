"""The slots of one service: whom a price brings together, and which ask would."""

from dataclasses import replace

import pytest

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.draws import FreeSlot, Wanted
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.market.inference.slots import ServiceSlots, Slots
from gpu_tasks.market.inference.units import UnitState
from runtime.encoding.types import Weight
from runtime.frame.schedule import WeightMeter
from simulation.chains.market_chain import (
    CUSTOMER,
    MODEL,
    OGPU,
    WORKLOAD,
    MarketChain,
    named_keys,
    per_thousand,
    signed,
    terms,
)
from unit_cases import matched

CONSUMER = DeviceClass.CONSUMER


def slot(owner: int, ask: int, changed_at: int = 1) -> FreeSlot:
    device = bytes([owner, ask]) * 16
    return FreeSlot(device, bytes([owner]) * 32, 100, 100, ask, key_since=1, changed_at=changed_at)


def wanted(rate: int, classes: tuple[DeviceClass, ...] = tuple(DeviceClass)) -> Wanted:
    return Wanted(rate, 1, 1, 1, (), classes=classes)


def test_only_asks_of_the_wanted_classes_count() -> None:
    """Else a unit would be looked at for slots that may not race, and not woken when one that may asks less."""
    found = ServiceSlots([slot(1, 10), replace(slot(1, 30), kind=CONSUMER), replace(slot(2, 20), kind=CONSUMER)])
    assert not found.is_affordable(wanted(29, (CONSUMER,)), 2)
    assert found.is_affordable(wanted(30, (CONSUMER,)), 2)
    assert found.is_affordable(wanted(20, (DeviceClass.CPU, CONSUMER)), 2)
    assert not found.is_affordable(wanted(99, (DeviceClass.CPU,)), 2)
    assert [found.next_ask(wanted(10, (kind,)), 1) for kind in DeviceClass] == [None, 20, None]


def test_the_lowest_ask_of_each_owner_counts() -> None:
    found = ServiceSlots([slot(1, 10), slot(1, 90), slot(2, 80), slot(2, 20)])
    assert not found.is_affordable(wanted(9), 1)
    assert found.is_affordable(wanted(10), 1)
    assert not found.is_affordable(wanted(19), 2)
    assert found.is_affordable(wanted(20), 2)
    assert not found.is_affordable(wanted(100), 3)


def test_the_next_ask_is_the_first_that_may_bring_enough_owners() -> None:
    found = ServiceSlots([slot(1, 10), slot(2, 20), slot(3, 30)])
    assert [found.next_ask(wanted(9), racers) for racers in (1, 2, 3, 4)] == [10, 20, 30, None]
    assert [found.next_ask(wanted(20), racers) for racers in (1, 2, 3)] == [30, 30, 30], "those below it did not do"
    assert found.next_ask(wanted(30), 1) is None


def test_the_newest_change_is_that_of_any_slot() -> None:
    assert ServiceSlots([slot(1, 10, 7), slot(2, 10, 3)]).changed_at == 7
    assert ServiceSlots([]).changed_at == 0


def test_where_others_race_one_place_is_to_be_filled() -> None:
    """Who must stay to judge is reckoned for that place: of one racer more, not of as many as were asked for."""
    chain = MarketChain(named_keys(27))
    _, unit, racers = matched(chain, 3)
    slots = Slots(chain.now()[InferenceMarket].state, WeightMeter(Weight(10**12, 0)))
    wanted = slots.wanted(unit, unit.price)
    assert {racer.stash for racer in racers} < set(wanted.excluded)
    assert wanted.spare.count == 1
    queued = replace(unit, racers=(), declined_by=())
    assert slots.wanted(queued, unit.price).spare.count == 3


@pytest.mark.parametrize("price", [OGPU, 18 * OGPU])
def test_what_one_service_was_given_counts_once_for_another(price: int) -> None:
    """A device for two units, and, where they are dear, with a bond for two: one of each service in one block."""
    chain = MarketChain(named_keys(4), queue=1)
    only = chain.validators[0]
    chain.block(*(signed(one.stash, Devices.pause(device=one.device)) for one in chain.validators[1:]))
    chain.blocks(3)
    bound = chain.now()
    sold = ServiceTerms(b"x", WORKLOAD, MODEL, per_thousand(price // 100), per_thousand(price), 1, 30, 64)
    numbers = (1, 2)
    for number in numbers:
        bound[InferenceMarket].catalogue.create(CUSTOMER.stash, sold, deposit=0)
        bound[InferenceMarket].catalogue.place_offer(only.device, number, per_thousand(price // 100))
    chain.state = chain.state.updated(bound.overlay.changes())
    chain.blocks(3)
    asked = terms(price, 1, chain.height - 1)
    chain.block(*(signed(CUSTOMER.stash, InferenceMarket.post(service=number, units=(asked,))) for number in numbers))
    chain.blocks(4)
    units = [unit for _, unit in chain.now()[InferenceMarket].units.items() if unit is not None]
    assert [unit.state for unit in units] == [UnitState.RACING] * 2
    held = chain.now()[Devices].devices[only.device]
    assert held is not None
    assert price == OGPU or held.bond < held.secured * 3 // 2, "there is not room for three"
