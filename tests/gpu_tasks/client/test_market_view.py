"""What was paid of late, out of the events of final blocks that a node still has the states of."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from gpu_tasks.client.commands import services
from gpu_tasks.client.commands.services import BLOCKS_LOOKED_AT, settled_of_late
from gpu_tasks.data import market_reads
from gpu_tasks.market.capacity.standing import ProvenRates
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.events import UnitMatched, UnitSettled
from gpu_tasks.market.inference.units import Racer, Unit, UnitTerms
from gpu_tasks.tasks.prices import SettledUnit
from offered import device, name
from runtime.pallets.system import EventRecord
from wallet.client import ChainClient
from wallet.rpc import RpcError

UNIT = Unit(3, name(1), UnitTerms(5, 2, bytes(32), bytes(32), 0, 1), 0, 0, 0, 1, 1)


class PlayedClient:
    """Final blocks with events by their heights; of those below `kept` the state is gone."""

    def __init__(self, height: int, events: dict[int, list[Any]], kept: int = 0) -> None:
        self._height, self._events, self._kept = height, events, kept
        self.asked: list[int] = []

    async def height(self, at: bytes) -> int:
        return self._height

    async def final_ids(self, first: int, last: int) -> list[bytes]:
        return [number.to_bytes(32) for number in range(first, last + 1)]

    async def events(self, block: bytes) -> list[EventRecord]:
        number = int.from_bytes(block)
        self.asked.append(number)
        if number < self._kept:
            raise RpcError(4003, "State already discarded")
        return [cast("EventRecord", Record(event)) for event in self._events.get(number, [])]


class Record:
    def __init__(self, event: Any) -> None:
        self.event = event


def settled(unit: int, winner: int, price: int) -> UnitSettled:
    return UnitSettled(name(unit), bytes(32), bytes(32), name(winner), price, None, price)


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch) -> dict[bytes, Unit]:
    known = {
        name(21): replace(UNIT, racers=(Racer(name(1), name(101), 0), Racer(name(2), name(102), 0))),
        name(22): replace(UNIT, racers=(Racer(name(2), name(102), 0),)),
        name(23): replace(UNIT, racers=(Racer(name(5), name(105), 0),)),
    }

    async def read_units(client: object, ids: list[bytes], at: bytes) -> list[Unit | None]:
        return [known.get(unit) for unit in ids]

    async def read_devices(client: object, at: bytes) -> tuple[Any, ...]:
        return device(1), device(2, kind=DeviceClass.DATACENTER)

    monkeypatch.setattr(market_reads, "units", read_units)
    monkeypatch.setattr(market_reads, "devices", read_devices)
    return known


def paid(client: PlayedClient) -> list[SettledUnit]:
    return asyncio.run(settled_of_late(cast("ChainClient", client), bytes(32)))


@pytest.mark.usefixtures("units")
def test_what_was_paid_is_of_the_winner_s_device() -> None:
    events: dict[int, list[Any]] = {
        40: [UnitMatched(name(21), 1, 0, ()), settled(21, 2, 9)],
        39: [settled(22, 2, 8), settled(23, 5, 7), settled(24, 1, 6)],  # a device that is gone, a record that is gone
    }
    client = PlayedClient(40, events)
    kind = DeviceClass.DATACENTER
    assert paid(client) == [SettledUnit(3, kind, 9, 40), SettledUnit(3, kind, 8, 39)]
    assert client.asked == list(range(40, 40 - BLOCKS_LOOKED_AT, -1))


@pytest.mark.usefixtures("units")
def test_it_ends_where_states_are_gone_and_at_the_first_block() -> None:
    client = PlayedClient(40, {30: [settled(21, 1, 9)]}, kept=35)
    assert paid(client) == []
    assert client.asked == [40, 39, 38, 37, 36, 35, 34]
    young = PlayedClient(2, {1: [settled(21, 1, 9)]})
    assert paid(young) == [SettledUnit(3, DeviceClass.CPU, 9, 1)]
    assert young.asked == [2, 1]
    assert paid(PlayedClient(0, {})) == []


def test_the_module_reads_offers_and_services_of_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def nothing(client: object, at: bytes) -> Any:
        asked.append(at)
        return {}

    monkeypatch.setattr(market_reads, "devices", nothing)
    monkeypatch.setattr(market_reads, "services", nothing)

    async def no_past(client: object, owners: object, at: bytes) -> Any:
        return await nothing(client, at)

    async def no_roll_call(client: object, devices: object, at: bytes) -> ProvenRates:
        await nothing(client, at)
        return ProvenRates(False, (), {})

    monkeypatch.setattr(services, "reliability_of", no_past)
    monkeypatch.setattr(services, "proven_rates", no_roll_call)
    assert asyncio.run(services.current_offers(cast("ChainClient", None), name(3))) == []
    assert asked == [name(3)] * 4
