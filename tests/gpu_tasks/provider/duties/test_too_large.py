"""Units that a machine cannot finish in time: passed before any work, and computed by another provider."""

from typing import cast
from unittest.mock import AsyncMock, Mock

import pytest

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.events import RaceDeclined, RaceMissed, RacePassed, UnitSettled
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.market.inference.units import Unit, UnitState, UnitTerms
from gpu_tasks.provider.chain.port import RacePort
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.work import seconds_for
from provider_chain import REQUEST, SLOT_MS, Village, in_village


def window_seconds(village: Village) -> float:
    """Return the commit window of the test chain's service, whose units have no pace."""
    service = village.node.chain.now()[InferenceMarket].services[0]
    assert service is not None
    return service.terms.commit_window * SLOT_MS / 1_000


@in_village(4)
async def test_a_unit_that_takes_too_long_here_is_passed_and_another_computes_it(village: Village) -> None:
    slow = village.miners[0]
    slow.executor.expected_seconds = window_seconds(village) + 0.1
    unit = await village.unit_for(slow)
    status = await village.run(unit)
    assert status.unit.state is UnitState.SETTLED
    assert set(slow.heard.codes("too_large")) == {"too_long_here"}
    assert [passed.provider for passed in village.happened(RacePassed)] == [slow.keys.stash]
    assert not village.happened(RaceDeclined)
    assert not village.happened(RaceMissed)
    assert not slow.executor.runs
    assert village.happened(UnitSettled)


@in_village(4)
async def test_a_batch_that_takes_too_long_here_is_passed(village: Village) -> None:
    for miner in village.miners:
        miner.executor.expected_seconds = window_seconds(village) + 0.1
    drawn = village.drawn(await village.post([REQUEST] * 3))
    await village.blocks(2)
    assert {event.provider for event in village.happened(RacePassed)} == {miner.keys.stash for miner in drawn}
    assert len(drawn) == 2
    assert not any(miner.executor.runs for miner in village.miners)


@pytest.mark.parametrize(
    ("device_class", "blocks"),
    [(None, 60), (DeviceClass.CPU, 60), (DeviceClass.CONSUMER, 33), (DeviceClass.DATACENTER, 31)],
)
async def test_a_unit_may_take_the_window_of_the_slowest_class_that_may_race(
    device_class: DeviceClass | None, blocks: int
) -> None:
    """30 blocks, and three times the 640 tokens at 64 a block on a processor, and ten times as many on each class."""
    terms = ServiceTerms(
        b"writer", bytes(32), bytes(32), 1, 2, ramp=100, commit_window=30, tokens_max=640, pace=64, consumer_pace=640,
        datacenter_pace=6_400,
    )  # fmt: skip
    wanted = UnitTerms(9, 2, bytes(32), bytes(32), 0, tokens_max=640, device_class=device_class)
    unit = Unit(0, bytes(32), wanted, escrow=0, bond=0, deposit=0, posted_at=5, recorded_at=5)
    chain = Mock(service=AsyncMock(return_value=Mock(terms=terms)), slot_ms=AsyncMock(return_value=SLOT_MS))
    assert await seconds_for(cast("Parts[RacePort]", Mock(chain=chain)), unit) == blocks * SLOT_MS / 1_000


@in_village(2)
async def test_a_unit_that_takes_its_whole_window_is_computed(village: Village) -> None:
    for miner in village.miners:
        miner.executor.expected_seconds = window_seconds(village)
    status = await village.run(await village.post())
    assert status.unit.state is UnitState.SETTLED
    assert not village.happened(RaceDeclined)


@in_village(5)
async def test_a_unit_that_only_others_can_compute_in_time_costs_its_racers_the_miss_fee(village: Village) -> None:
    for miner in village.miners:
        miner.executor.expected_seconds = window_seconds(village) + 0.1
    unit = await village.post()
    village.drawn(unit)
    record = village.unit(unit).unit
    held = {racer.owner: racer.collateral for racer in record.racers}
    await village.blocks(3)
    passed = [event for event in village.happened(RacePassed) if event.provider in held]
    fees = {owner: grains * record.rules.idle_penalty // 1_000_000 for owner, grains in held.items()}
    assert {event.provider: event.amount for event in passed} == fees
    for miner in village.miners:
        assert not (await miner.chain.own_devices())[0].device.is_paused
    assert not village.happened(RaceMissed)
