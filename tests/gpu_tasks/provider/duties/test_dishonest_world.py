"""An honest provider among slow stores: real pallets, daemons and journals (finding B1)."""

import asyncio
from dataclasses import replace
from unittest.mock import AsyncMock

import pytest

from gpu_tasks.market.inference.events import RaceMissed, UnitRefunded, UnitSettled
from gpu_tasks.provider.device_watch import DeviceReview
from gpu_tasks.provider.duties.race_steps import GIVE_BACK_BLOCKS, must_give_back, race_of
from gpu_tasks.provider.duties.resumer import RESUME_AFTER_BLOCKS
from gpu_tasks.provider.execution.executor import ExecutionError
from provider_chain import Miner, Village, in_village
from runtime.frame.call import Call

OTHER_REQUEST = b"complete something else"


async def seen(village: Village, *, views: int = 3) -> None:
    """Make a block, and give every provider a view without waiting for hung work."""
    village.node.block()
    for miner in list(village.miners):
        await miner.daemon.step(miner.chain.view())
    for _ in range(views):
        await asyncio.sleep(0.001)


def hang_all_stores(village: Village) -> None:
    async def hang(*_: object, **__: object) -> bytes:
        return await asyncio.Future()

    for miner in village.miners:
        miner.daemon.parts.blobs.get = hang  # type: ignore[method-assign]  # every store drips


@in_village(4)
async def test_the_daemons_need_no_restart_after_a_dripping_store(village: Village) -> None:
    quick = village.miners[0].daemon.parts.blobs.get
    hang_all_stores(village)
    await village.post(is_stored=False)
    while not village.happened(UnitRefunded):
        await seen(village)
    for miner in village.miners:
        miner.daemon.parts.blobs.get = quick  # type: ignore[method-assign]  # as before
    await village.run(await village.post())
    assert village.happened(UnitSettled)


@pytest.mark.parametrize(("first_commit", "from_height"), [(0, 50 - GIVE_BACK_BLOCKS), (20, 51)])
@in_village(2)
async def test_when_a_race_without_its_input_is_given_back(
    village: Village, first_commit: int, from_height: int
) -> None:
    """Never after a rival's commit: the checkers would find the input good, and the decliner would pay them."""
    await village.post(is_stored=False)
    while not (duties := village.miners[0].chain.view().duties):
        village.node.block()
    race = race_of(duties[0], village.miners[0].keys.stash)
    assert race is not None
    assert race.unit.round is not None
    changed = replace(race.unit, round=replace(race.unit.round, first_commit=first_commit))
    race = replace(race, unit=changed, commits_until=50)
    given = [height for height in range(30, 51) if must_give_back(race, height)]
    assert given == list(range(from_height, 51))
    assert not must_give_back(replace(race, commits_until=0), 50)


@in_village(4)
async def test_racers_keep_their_inputs_and_serve_them(village: Village) -> None:
    """Once two racers have an input, the customer's stores are no longer needed."""
    status = await village.run(await village.post())
    root = status.unit.terms.input_root
    for racer in status.unit.racers:
        store = f"http://127.0.0.1:{village.miner(racer.owner).daemon.server.port}"
        assert await village.blobs.get(root, [store])


# ------------------------------------------------------------------------------------------------- resuming by itself


async def missed_by(village: Village, miner: Miner) -> None:
    """Let the miner miss a race. Its node loses the call that would pass the race."""
    submit = miner.chain.submit

    async def without_pass(call: Call) -> None:
        if call.name != "InferenceMarket.pass_unit":
            await submit(call)

    miner.executor.trouble = ExecutionError("out of memory")
    miner.chain.submit = without_pass  # type: ignore[method-assign]
    before = len(village.happened(RaceMissed))
    while len(village.happened(RaceMissed)) == before:
        unit = await village.post(racers=1)
        # The device may be resumed before the unit ends.
        while not village.unit(unit).unit.ended_at and len(village.happened(RaceMissed)) == before:
            await village.block()
    miner.executor.trouble = None
    miner.chain.submit = submit  # type: ignore[method-assign]


async def is_paused(miner: Miner) -> bool:
    return (await miner.chain.own_devices())[0].device.is_paused


async def blocks_until_resumed(village: Village, miner: Miner) -> int:
    while not await is_paused(miner):
        village.node.block()
        await miner.step()
    begin = village.node.chain.height
    while await is_paused(miner):
        village.node.block()
        await miner.step()
        while miner.daemon.duty(DeviceReview).resumer.tasks._tasks:
            await asyncio.sleep(0.001)
        assert village.node.chain.height < begin + 4 * RESUME_AFTER_BLOCKS[1]
    return village.node.chain.height - begin


@in_village(2)
async def test_after_a_miss_the_device_comes_back_by_itself_and_later_each_time(village: Village) -> None:
    broken = village.miners[0]
    waited = []
    for wait in RESUME_AFTER_BLOCKS[:2]:
        await missed_by(village, broken)
        waited.append(await blocks_until_resumed(village, broken))
        broken.daemon.parts.pauses.note(broken.keys.device, misses=len(waited))  # it earned nothing between the two
        assert waited[-1] >= wait - 30  # a race's end takes a while to be seen
    assert waited[1] > waited[0]
    assert len(broken.heard.problems("missed")) == 2
    await village.run(await village.post())


@in_village(2)
async def test_a_machine_that_still_fails_is_not_offered_again(village: Village) -> None:
    broken = village.miners[0]
    await missed_by(village, broken)
    broken.daemon.parts.workers.start = AsyncMock(side_effect=ExecutionError("the vectors do not match"))  # type: ignore[method-assign]  # its worker does not conform
    for _ in range(3 * RESUME_AFTER_BLOCKS[0]):
        village.node.block()
        await broken.step()
    assert await is_paused(broken)
    assert broken.heard.problems("not_resumed")[0] == "the vectors do not match"
    assert 1 <= len(broken.heard.problems("not_resumed")) <= 3
