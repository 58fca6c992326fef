"""When a unit needs the chain's attention: at a height, or once a height is final.

Always: the work of one block is bounded, and what does not fit is done in the next, in order; a unit
is on a list at most once, and being called too often or late does no harm, since a step does only
what is due. So no state waits for anybody's transaction.
"""

from typing import TYPE_CHECKING, Annotated

from gpu_tasks.market import rounds
from gpu_tasks.market.rounds import Round, Windows
from gpu_tasks.market.units import UnitId
from runtime.codec import Bounded

if TYPE_CHECKING:
    from gpu_tasks.market.inference import InferenceMarket

UNITS_OPEN_MAX = 4_096
UNITS_KEPT_MAX = 65_536
STEPS_PER_BLOCK_MAX = 256
HEIGHTS_PER_BLOCK_MAX = 1_024

UnitList = Annotated[tuple[UnitId, ...], Bounded(UNITS_KEPT_MAX)]


def at_height(market: "InferenceMarket", height: int, unit: bytes) -> None:
    """Call the unit in block `height`, which has not begun."""
    if unit not in market.agenda[height]:
        market.agenda[height] = (*market.agenda[height], unit)


def once_final(market: "InferenceMarket", height: int, unit: bytes) -> None:
    """Call the unit in the first block whose `final_ref` covers `height`, which has not been."""
    if unit not in market.final_agenda[height]:
        market.final_agenda[height] = (*market.final_agenda[height], unit)


def follow(market: "InferenceMarket", unit: bytes, now: Round, windows: Windows) -> None:
    """Have a unit called when its round can next change by itself."""
    height, final = market.system.number.get(), market.beacon.final_height()
    deadline = rounds.reveal_deadline(now, windows) if now.closed_at else rounds.commit_deadline(now, windows)
    if deadline is not None:
        at_height(market, max(deadline, height) + 1, unit)
    awaited = now.closed_at or (0 if now.leased_from else now.drawn_at)
    if awaited > final:
        once_final(market, awaited, unit)


def due(market: "InferenceMarket", height: int, final_height: int) -> tuple[bytes, ...]:
    """The units to call in block `height`, each once; what is over the limit moves to the next block."""
    units = tuple(dict.fromkeys((*_newly_final(market, final_height), *market.agenda[height])))
    del market.agenda[height]
    for unit in units[STEPS_PER_BLOCK_MAX:]:
        at_height(market, height + 1, unit)
    return units[:STEPS_PER_BLOCK_MAX]


def _newly_final(market: "InferenceMarket", final_height: int) -> list[bytes]:
    """Units that waited for heights up to `final_height`, at most half of a block's steps."""
    units: list[bytes] = []
    cursor = market.final_cursor.get()
    limit = min(final_height, cursor + HEIGHTS_PER_BLOCK_MAX)
    while cursor < limit:
        waiting = market.final_agenda[cursor + 1]
        room = STEPS_PER_BLOCK_MAX // 2 - len(units)
        units += waiting[:room]
        if len(waiting) > room:
            market.final_agenda[cursor + 1] = waiting[room:]
            break
        if waiting:
            del market.final_agenda[cursor + 1]
        cursor += 1
    market.final_cursor.set(cursor)
    return units
