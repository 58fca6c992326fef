"""A provider drawn for a declined place works as any racer does, and is paid."""

import asyncio
from dataclasses import replace

from gpu_tasks.market.inference.events import PlaceRefilled, RaceMissed, UnitSettled
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.duties.race import RaceDuty
from gpu_tasks.provider.execution.executor import Execution
from gpu_tasks.provider.journal.records import End
from provider_chain import Miner, Village, in_village


async def cannot_open(*_: object) -> None:
    """Fail to open the input, as with a disk that returned another key than the registered one."""
    raise UnusableInputError("no box of this input opens with this key")


async def race_between(village: Village) -> tuple[bytes, Miner, Miner, Miner]:
    """Return a unit, its two racers, and the provider outside its race."""
    unit = await village.post()
    first, second = village.drawn(unit)
    (third,) = (miner for miner in village.miners if miner not in (first, second))
    return unit, first, second, third


async def step(village: Village, silenced: Miner | None = None) -> None:
    """Make a block and a step of every provider. Messages of the silenced one are lost."""
    await village.block()
    if silenced is not None:
        lost = silenced.keys.provider
        village.node.calls = [(account, call) for account, call in village.node.calls if account != lost]


@in_village(3)
async def test_one_of_three_cannot_open_its_input_and_another_is_paid_in_its_place(village: Village) -> None:
    unit, broken, slow, third = await race_between(village)
    broken.daemon.parts.inputs.open = cannot_open  # type: ignore[method-assign, assignment]
    for _ in range(8):
        await step(village, silenced=slow)  # it has its result, and its commit does not arrive
    assert village.happened(PlaceRefilled) == [PlaceRefilled(unit, 1, third.keys.stash, broken.keys.stash)]
    status = await village.run(unit)
    assert status.unit.state is UnitState.SETTLED
    (settled,) = village.happened(UnitSettled)
    assert {settled.winner, settled.witness} == {slow.keys.stash, third.keys.stash}
    assert [len(miner.executor.runs) for miner in (broken, slow, third)] == [0, 1, 1], "nothing is computed twice"
    assert ["declined" in miner.heard.names() for miner in (broken, slow, third)] == [True, False, False]
    for _ in range(12):  # until no audit can come any more
        await step(village)
    ends = [miner.daemon.parts.journal.races[unit, 1].end for miner in (broken, slow, third)]
    assert ends[0] is End.UNPAID
    assert {ends[1], ends[2]} == {End.WON, End.WITNESSED}
    reasons = [fields.get("reason") for name, fields in broken.heard.events if name == "ended"]
    assert [str(reason).endswith("gave the unit back") for reason in reasons] == [True]
    assert not village.happened(RaceMissed)
    assert not village.node.failed


@in_village(3)
async def test_work_for_a_unit_that_is_ones_own_no_more_stops_and_frees_the_device(village: Village) -> None:
    """Otherwise a recalled unit would run to its end for no pay before the device begins the next one."""
    _, miner, _, _ = await race_between(village)

    async def never(_: bytes) -> Execution:
        await asyncio.sleep(3_600)
        raise AssertionError("an hour has passed")

    miner.executor.run = never  # type: ignore[method-assign, assignment]
    view = miner.chain.view()
    await miner.daemon.step(view)
    at_work = miner.daemon.duty(RaceDuty).book.tasks
    for _ in range(100):
        await asyncio.sleep(0.001)
    assert at_work._tasks
    await miner.daemon.step(replace(view, duties=()))
    for _ in range(100):
        await asyncio.sleep(0.001)
    assert not at_work._tasks
    (device,) = await miner.chain.own_devices()
    assert not miner.daemon.parts.workers.is_working(device.id)
