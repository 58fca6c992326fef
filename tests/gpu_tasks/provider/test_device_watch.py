"""A daemon observes its devices' use of time, and the reasons for idleness."""

import asyncio
import time
from collections.abc import Collection
from itertools import count
from pathlib import Path
from typing import Any

from fake_work import FakeExecutor
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.provider.chain.demand import Demand
from gpu_tasks.provider.chain.port import ChainError
from gpu_tasks.provider.device_watch import STILL_MS_MIN, DeviceWatch
from gpu_tasks.provider.duties.resumer import BY_OPERATOR
from gpu_tasks.provider.execution.executor import Execution, ExecutionError
from gpu_tasks.provider.utilisation import UTILISATION_FOLDER, device_days, present_notes
from provider_chain import REQUEST, Miner, Village, in_village
from runtime.encoding.types import GRAINS_PER_OGPU
from simulation.chains.market_chain import signed


class Seen:
    """The reported activity of a provider's device, at each change."""

    def __init__(self, miner: Miner) -> None:
        self.miner = miner
        (self.device,) = miner.daemon.parts.workers.devices
        miner.daemon.parts.workers.times._clock_ms = count(
            time.monotonic_ns() // 1_000_000
        ).__next__  # one for each look

    def now(self) -> str:
        self.miner.daemon.duty(DeviceWatch).write()
        return present_notes(self.folder)[f"0x{self.device.hex()}"].state

    async def until(self, state: str) -> None:
        """Wait until the device has this activity, without a look of the watch itself."""
        for _ in range(2_000):
            if self.miner.daemon.parts.workers.times.present()[self.device].state.value == state:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"{self.now()}, not {state}")

    def words(self) -> str:
        self.miner.daemon.duty(DeviceWatch).write()
        return present_notes(self.folder)[f"0x{self.device.hex()}"].words

    @property
    def folder(self) -> Path:
        return self.miner.daemon.settings.base_path / UTILISATION_FOLDER


async def step(village: Village, blocks: int = 4) -> None:
    """Make blocks until everything was looked at."""
    await village.blocks(blocks)


class Slow(FakeExecutor):
    """Waits for the test's command."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()

    async def run(self, request: bytes) -> Execution:
        await self.go.wait()
        return await super().run(request)


def test_a_device_computes_waits_for_the_chain_and_has_nothing_to_do(tmp_path: Path) -> None:
    async def scene(village: Village) -> None:
        miner = village.miners[0]
        seen = Seen(miner)
        assert seen.now() == "no node", "no block seen"
        await step(village)
        assert seen.now() == "not asked for"
        assert "service 0" in seen.words()
        await village.post(REQUEST, racers=1)
        while not miner.chain.view().duties:
            village.node.block()
        await miner.daemon.step(miner.chain.view())
        looking = miner.daemon.duty(DeviceWatch)._running
        assert looking is not None
        looking.cancel()  # later changes are seen as they happen
        await seen.until("units")
        executor.go.set()
        await seen.until("chain")  # its commit is in no block
        await step(village)
        assert seen.now() in ("between units", "not asked for")
        await step(village, 40)
        assert seen.now() == "not asked for"
        (day,) = device_days(seen.folder)
        assert {"units", "chain", "not asked for"} <= set(day.ms)
        assert day.tokens == len(REQUEST)

    executor = Slow()

    async def main() -> None:
        village = Village(tmp_path, 1)
        village.make = executor.make
        async with village:
            await scene(village)

    asyncio.run(asyncio.wait_for(main(), 120))


@in_village(1)
async def test_a_machine_that_fails_says_so_and_one_without_its_input_too(village: Village) -> None:
    miner = village.miners[0]
    seen = Seen(miner)
    miner.executor.trouble = ExecutionError("the power is gone")
    await village.post(REQUEST, racers=1)
    await step(village, 8)
    assert seen.now() == "hindered"
    miner.executor.trouble = None
    await step(village, 40)
    assert seen.now() == "not asked for"
    await village.post(b"complete that", racers=1, is_stored=False)
    for _ in range(8):
        await step(village, 1)
        if miner.chain.view().duties:
            break
    assert seen.now() == "input"


@in_village(1)
async def test_why_nothing_is_drawn(village: Village) -> None:
    """From the market's services, bonds and prices: see `test_demand` and `test_idling`."""
    miner = village.miners[0]
    seen, stash = Seen(miner), miner.keys.stash
    await step(village)

    async def after(call: Any) -> str:
        village.node.chain.block(signed(stash, call))
        await step(village)
        return seen.now()

    offer = InferenceMarket.offer(service=0, device=seen.device, ask=50 * GRAINS_PER_OGPU)
    assert await after(Devices.pause(device=seen.device)) == "paused"
    assert BY_OPERATOR in seen.words()
    assert await after(Devices.resume(device=seen.device)) == "not asked for"
    assert await after(InferenceMarket.withdraw_offer(service=0, device=seen.device)) == "no offer"
    assert await after(offer) == "not asked for"
    await village.post(REQUEST, racers=1)
    await step(village, 8)
    assert seen.now() == "price"
    miner.chain.is_away = True
    clock = miner.daemon.duty(DeviceWatch)._clock
    miner.daemon.duty(DeviceWatch)._clock = lambda: clock() + STILL_MS_MIN / 1_000 + 1
    assert seen.now() == "no node"


@in_village(1)
async def test_of_the_market_nothing_is_asked_for_a_paused_device(village: Village) -> None:
    miner, asked = village.miners[0], list[Collection[int]]()
    found = miner.chain.demand

    async def demand(services: Collection[int]) -> Demand:
        asked.append(services)
        return await found(services)

    miner.chain.demand = demand  # type: ignore[method-assign]
    await step(village, 12)
    assert asked, "it stands still, and may be drawn"
    village.node.chain.block(signed(miner.keys.stash, Devices.pause(device=Seen(miner).device)))
    await step(village, 12)
    asked.clear()
    await step(village, 12)
    assert not asked


@in_village(1)
async def test_a_node_that_answers_nothing_stops_no_work(village: Village) -> None:
    miner = village.miners[0]

    async def demand(services: Collection[int]) -> Demand:
        raise ChainError(f"the node is away, and was asked about {services}")

    miner.chain.demand = demand  # type: ignore[method-assign]
    unit = await village.post(REQUEST, racers=1)
    status = await village.run(unit)
    assert status.unit.output_root is not None
