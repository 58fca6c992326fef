"""When a unit needs the chain's attention: at a height, or once a height is final; and when its record goes.

Always: the work of one block is bounded, and what does not fit stays where it is until the next blocks come to it, so
a backlog of any length costs no block more than any other; a unit is called once a block at most, and being called
too often or late does no harm, since a step does only what is due. So no state waits for anybody's transaction.
"""

from itertools import islice
from typing import TYPE_CHECKING

from gpu_tasks.market import rounds
from gpu_tasks.market.ids import UnitId
from gpu_tasks.market.rounds import Round, Windows
from runtime.encoding.types import BlockNumber
from runtime.frame.pallet import StorageDoubleMap, StorageValue

if TYPE_CHECKING:
    from gpu_tasks.market.inference.inference import InferenceMarket

UNITS_OPEN_MAX = 4_096
"""Each locks a deposit, so to shut others out costs the use of `unit_deposit` times this."""
STEPS_PER_BLOCK_MAX = 256
"""Units called in one block because of its height; at most half as many besides because of finality."""
EXPIRIES_PER_BLOCK_MAX = 256
"""More than may end in a block for long, since each that ends was called several times."""
HEIGHTS_PER_BLOCK_MAX = 1_024

Queue = StorageDoubleMap[BlockNumber, UnitId, bool]


def at_height(market: "InferenceMarket", height: int, unit: bytes) -> None:
    """Call the unit in block `height`, which has not begun."""
    market.agenda[height, unit] = True


def once_final(market: "InferenceMarket", height: int, unit: bytes) -> None:
    """Call the unit in the first block whose `final_ref` covers `height`, which has not been."""
    market.final_agenda[height, unit] = True


def forget_at(market: "InferenceMarket", height: int, unit: bytes) -> None:
    """Drop the record of an ended unit in block `height`, which has not begun."""
    market.expiring[height, unit] = True


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
    """The units to call in block `height`, each once."""
    final = _take(market.final_agenda, market.final_cursor, final_height, STEPS_PER_BLOCK_MAX // 2)
    reached = _take(market.agenda, market.agenda_cursor, height, STEPS_PER_BLOCK_MAX)
    return tuple(dict.fromkeys((*final, *reached)))


def expired(market: "InferenceMarket", height: int) -> list[bytes]:
    """The ended units whose records are dropped in block `height`."""
    return _take(market.expiring, market.expiring_cursor, height, EXPIRIES_PER_BLOCK_MAX)


def _take(queue: Queue, cursor: StorageValue[BlockNumber], limit: int, room: int) -> list[bytes]:
    """Up to `room` units out of a queue, from the heights after the cursor up to `limit`; the rest stays."""
    taken: list[bytes] = []
    done = cursor.get()
    end = min(limit, done + HEIGHTS_PER_BLOCK_MAX)
    while done < end:
        units = [unit for unit, _ in islice(queue.under(done + 1), room - len(taken) + 1)]
        for unit in units[: room - len(taken)]:
            del queue[done + 1, unit]
        taken += units
        if len(taken) > room:
            break
        done += 1
    cursor.set(done)
    return taken[:room]
