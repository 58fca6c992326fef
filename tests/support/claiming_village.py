"""Villages in which every result is checked, and the progress of their claims."""

from collections.abc import Callable
from typing import Any

from gpu_tasks.market.claims.claim_events import CheckEnded, ClaimEnded
from gpu_tasks.market.claims.claims import CheckEnd, ClaimOutcome
from gpu_tasks.market.inference.units import UnitState
from provider_chain import Village
from runtime.frame.call import Call
from simulation.chains.market_chain import MarketChain, named_keys
from staged import Scene, staged

ASKED = [b"complete this", b"no request", b"complete that one too", b"complete it"]
ALWAYS = {"ResultClaims.check_rate": 1_000_000}
"""Every item is checked."""
BLOCKS_MAX = 400

Act = Callable[[], None]


def in_claiming_village(
    size: int = 6, *, queue: int = 0, epoch_blocks: int = 60, **numbers: Any
) -> Callable[[Scene], Callable[..., None]]:
    """Stage a test in a village of `size` providers on a chain that checks every item."""
    constants = {**ALWAYS, **{name.replace("__", "."): value for name, value in numbers.items()}}

    def village(folder: Any) -> Village:
        return Village(
            folder,
            size,
            chain=MarketChain(named_keys(size), constants=constants, queue=queue, epoch_blocks=epoch_blocks),
        )

    return staged(village)


async def until(village: Village, is_enough: Callable[[], object], act: Act = lambda: None) -> None:
    """Make blocks until a condition holds. `act` comes after each block, before the providers' steps."""
    for _ in range(BLOCKS_MAX):
        village.node.block()
        act()
        if is_enough():
            return
        for miner in list(village.miners):
            await miner.step()
    raise AssertionError("never enough")


async def until_ended(village: Village, unit: bytes, act: Act = lambda: None) -> UnitState:
    """Make blocks until a unit is settled or refunded. Return its state."""
    await until(village, lambda: village.unit(unit).unit.ended_at, act)
    return UnitState(village.unit(unit).unit.state)


def outcomes(village: Village) -> list[ClaimOutcome]:
    """Return the ends of all claims."""
    return [ClaimOutcome(event.outcome) for event in village.happened(ClaimEnded)]


def check_ends(village: Village) -> list[CheckEnd]:
    """Return the ends of all checks."""
    return [CheckEnd(event.end) for event in village.happened(CheckEnded)]


def calls(village: Village, name: str) -> list[tuple[bytes, Call]]:
    """Return the calls of a name that wait for the next block."""
    return [(account, call) for account, call in village.node.calls if call.name == name]


def is_claimed(village: Village, unit: bytes) -> bool:
    return village.unit(unit).unit.state is UnitState.CLAIMED


def spoiling_racers(village: Village, unit: bytes, count: int) -> Act:
    """Let the first racers compute wrong results, until all results are in."""

    def spoil() -> None:
        record = village.unit(unit).unit
        liars = {racer.owner for racer in record.racers[:count]} if record.state is UnitState.RACING else set()
        for miner in village.miners:
            miner.executor.spoil = miner.keys.stash in liars

    return spoil
