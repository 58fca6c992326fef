"""Units that a machine cannot finish in time: declined before any work, and computed by another provider."""

from gpu_tasks.market.inference.events import ProviderSlashed, RaceDeclined, RaceMissed, UnitSettled
from gpu_tasks.market.inference.units import UnitState
from provider_chain import SLOT_MS, Village, in_village


def window_seconds(village: Village) -> float:
    """Return the commit window of the test chain's service, whose units have no pace."""
    service = village.node.api().services()[0][1]
    return service.terms.commit_window * SLOT_MS / 1_000


@in_village(4)
async def test_a_unit_that_takes_too_long_here_is_declined_and_another_computes_it(village: Village) -> None:
    slow = village.miners[0]
    slow.executor.expected_seconds = window_seconds(village) + 0.1
    unit = await village.unit_for(slow)
    status = await village.run(unit)
    assert status.unit.state is UnitState.SETTLED
    assert set(slow.heard.codes("too_large")) == {"too_long_here"}
    assert [declined.provider for declined in village.happened(RaceDeclined)] == [slow.keys.stash]
    assert not village.happened(RaceMissed)
    assert not slow.executor.runs
    assert village.happened(UnitSettled)


@in_village(2)
async def test_a_unit_that_takes_its_whole_window_is_computed(village: Village) -> None:
    for miner in village.miners:
        miner.executor.expected_seconds = window_seconds(village)
    status = await village.run(await village.post())
    assert status.unit.state is UnitState.SETTLED
    assert not village.happened(RaceDeclined)


@in_village(5)
async def test_a_unit_that_only_judges_can_compute_in_time_costs_its_decliners(village: Village) -> None:
    """A quarter of the price, and the judges' fees shared by two. So a daemon declines no unit that it may finish."""
    for miner in village.miners:
        miner.executor.expected_seconds = window_seconds(village) + 0.1
    unit = await village.post()
    village.drawn(unit)
    price = village.unit(unit).unit.price
    await village.blocks(60)
    declined = {event.provider for event in village.happened(RaceDeclined)}
    slashed = village.happened(ProviderSlashed)
    assert {event.provider for event in slashed} == declined
    assert len(declined) == 2
    assert {event.amount for event in slashed} == {price // 4 + 3 * (price // 2) // 2}
    assert not village.happened(RaceMissed)
