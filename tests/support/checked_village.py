"""Villages whose batches are checked by their leaves: a batch, and how far its check is."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.market.leaf_checks.checks import CheckOutcome
from gpu_tasks.market.leaf_checks.events import LeafCheckEnded
from provider_chain import Miner, Village
from simulation.chains.market_chain import MarketChain, named_keys

SIZE = 8
ASKED = [b"complete this", b"no request", b"complete that one too", b"complete it"]
NUMBERS = {"LeafChecks.check_from": 2, "LeafChecks.show_blocks": 20}


def play(folder: Path, scene: Callable[[Village], Awaitable[None]], size: int = SIZE, **numbers: Any) -> None:
    async def main() -> None:
        chain = MarketChain(named_keys(size), [], {**NUMBERS, **numbers})
        async with Village(folder, size, chain=chain) as village:
            await scene(village)

    asyncio.run(asyncio.wait_for(main(), 120))


async def until_checked(village: Village, unit: bytes, each_block: Callable[[], None] = lambda: None) -> CheckOutcome:
    """Blocks, and a step of everybody after each, until the check of a batch is over."""
    for _ in range(300):
        village.node.block()
        each_block()
        for miner in list(village.miners):
            await miner.step()
        ended = [event for event in village.node.chain.happened(LeafCheckEnded) if event.unit == unit]
        if ended:
            return CheckOutcome(ended[0].outcome)
    raise AssertionError("a check without end")


async def until_settled(village: Village, unit: bytes) -> None:
    while (status := village.node.api().unit(unit)) is None or status.unit.state is not UnitState.SETTLED:
        village.node.block()
        for miner in list(village.miners):
            await miner.step()


def racers_of(village: Village, unit: bytes) -> list[Miner]:
    status = village.node.api().unit(unit)
    assert status is not None
    return [village.miner(racer.owner) for racer in status.unit.racers]
