"""Villages with checks of batches by their leaves: a batch, and the progress of its check."""

from collections.abc import Callable
from typing import Any

from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.market.leaf_checks.checks import CheckOutcome
from gpu_tasks.market.leaf_checks.events import LeafCheckEnded
from provider_chain import Village
from simulation.chains.market_chain import MarketChain, named_keys
from staged import Scene, staged

SIZE = 8
ASKED = [b"complete this", b"no request", b"complete that one too", b"complete it"]
NUMBERS = {"LeafChecks.check_from": 2, "LeafChecks.show_blocks": 20}


def in_checked_village(size: int = SIZE, **numbers: Any) -> Callable[[Scene], Callable[..., None]]:
    """Stage a test in a village of `size` providers on a chain that checks batches."""
    return staged(lambda folder: Village(folder, size, chain=MarketChain(named_keys(size), [], {**NUMBERS, **numbers})))


async def until_checked(village: Village, unit: bytes, each_block: Callable[[], None] = lambda: None) -> CheckOutcome:
    """Make blocks, with a step of every provider after each, until the check of a batch is over."""
    for _ in range(300):
        village.node.block()
        each_block()
        for miner in list(village.miners):
            await miner.step()
        ended = [event for event in village.happened(LeafCheckEnded) if event.unit == unit]
        if ended:
            return CheckOutcome(ended[0].outcome)
    raise AssertionError("a check without end")


async def until_settled(village: Village, unit: bytes) -> None:
    while village.unit(unit).unit.state is not UnitState.SETTLED:
        await village.block()
