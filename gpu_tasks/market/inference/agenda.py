"""When a unit needs the chain's attention: at a height, or once a height is final; and when its record goes.

Always: the work of one block is bounded, and what does not fit stays where it is until the next blocks come to it, so
a backlog of any length costs no block more than any other; a unit is called once a block at most, and being called
too often or late does no harm, since a step does only what is due. So no state waits for anybody's transaction.
Cursors only rise, and nothing is ever put behind one. An agenda knows units by their ids alone.
"""

from dataclasses import dataclass
from itertools import islice

from gpu_tasks.market import rounds
from gpu_tasks.market.ids import UnitId
from gpu_tasks.market.rounds import Round, Windows
from runtime.encoding.types import BlockNumber
from runtime.frame.pallet import StorageDoubleMap, StorageValue
from runtime.pallets.beacon import Beacon
from runtime.pallets.system import System

STEPS_PER_BLOCK_MAX = 256
"""Units called in one block because of its height; at most half as many besides because of finality."""
EXPIRIES_PER_BLOCK_MAX = 256
"""More than may end in a block for long, since each that ends was called several times."""
HEIGHTS_PER_BLOCK_MAX = 1_024


@dataclass(frozen=True, slots=True)
class Schedule:
    """What waits for which height, and up to which height all of it has been taken."""

    waiting: StorageDoubleMap[BlockNumber, UnitId, bool]
    cursor: StorageValue[BlockNumber]

    def put(self, height: int, unit: bytes) -> None:
        """Have the unit taken at `height`, which has not been reached."""
        assert height > self.cursor.get(), "what lies behind the cursor is never taken"
        self.waiting[height, unit] = True

    def take(self, limit: int, room: int) -> list[bytes]:
        """Up to `room` units, from the heights after the cursor up to `limit`; the rest stays."""
        done = self.cursor.get()
        assert done <= limit, "a cursor only rises, and never above the height that has been reached"
        taken: list[bytes] = []
        end = min(limit, done + HEIGHTS_PER_BLOCK_MAX)
        while done < end:
            left = room - len(taken)
            found = [unit for unit, _ in islice(self.waiting.under(done + 1), left + 1)]
            for unit in found[:left]:
                del self.waiting[done + 1, unit]
            taken += found[:left]
            if len(found) > left:
                # Carried over to the next block in a list, a backlog would be copied by every block: units posted and
                # cancelled for some 20 oGPU in fees would stop the chain.
                break
            done += 1
        self.cursor.set(done)
        return taken


@dataclass(frozen=True, slots=True)
class Agenda:
    """The units to call by height and by finality, and the records to drop."""

    system: System
    beacon: Beacon
    by_height: Schedule
    by_finality: Schedule
    expiring: Schedule

    def at_height(self, height: int, unit: bytes) -> None:
        """Call the unit in block `height`, which has not begun."""
        self.by_height.put(height, unit)

    def once_final(self, height: int, unit: bytes) -> None:
        """Call the unit in the first block whose `final_ref` covers `height`, which has not been."""
        self.by_finality.put(height, unit)

    def forget_at(self, height: int, unit: bytes) -> None:
        """Drop the record of an ended unit in block `height`, which has not begun."""
        self.expiring.put(height, unit)

    def follow(self, unit: bytes, current: Round, windows: Windows) -> None:
        """Have the unit called when its round can next change by itself."""
        deadline, awaited = rounds.next_change(current, windows)
        if deadline is not None:
            self.at_height(max(deadline, self.system.number.get()) + 1, unit)
        if awaited > self.beacon.final_height():
            self.once_final(awaited, unit)

    def due(self) -> tuple[bytes, ...]:
        """The units to call in this block, each once."""
        final = self.by_finality.take(self.beacon.final_height(), STEPS_PER_BLOCK_MAX // 2)
        reached = self.by_height.take(self.system.number.get(), STEPS_PER_BLOCK_MAX)
        return tuple(dict.fromkeys((*final, *reached)))

    def expired(self) -> list[bytes]:
        """The ended units whose records are dropped in this block."""
        return self.expiring.take(self.system.number.get(), EXPIRIES_PER_BLOCK_MAX)
