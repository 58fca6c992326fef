"""When a unit needs the chain's attention: at a height, or once a height is final; and when its record goes.

Always: the work of one block is bounded, deadlines first; draws and wake-ups have a share of their own, so that what is
posted delays no race; being called too often or late does no harm, since a step does only what is due. So no state
waits for anybody's transaction. A unit that ends is on no agenda any more. An agenda knows units by their ids alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gpu_tasks.market.ages import AgedUnit, aged, unit_of
from gpu_tasks.market.ids import UnitId
from gpu_tasks.market.weights import WEIGHTS
from runtime.frame.pallet import Hasher, Pallet, ScheduleItem
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import work
from runtime.pallets.beacon import Beacon
from runtime.pallets.system import System

STEP_WEIGHT = WEIGHTS["InferenceMarket.on_initialize step"]
"""One unit called: at most a race of eight that is settled, of whom seven did not reveal."""
HEIGHT_BUDGET = work(microseconds=64_000)
"""For units called because of their height."""
FINAL_BUDGET = work(microseconds=32_000)
"""For units called because of finality, draws apart."""
EXPIRY_WEIGHT = WEIGHTS["InferenceMarket.on_initialize expiry"]
EXPIRY_BUDGET = work(microseconds=16_000)
"""For records that are dropped; one that has to wait longer keeps its deposit for as long."""

_HASHERS = (Hasher.TWOX_64_CONCAT, Hasher.BLAKE2_128_CONCAT)


class AgendaStorage(Pallet):
    """What InferenceMarket keeps about when each unit is called next."""

    system: System
    beacon: Beacon

    agenda: ScheduleItem[UnitId] = ScheduleItem(doc="Units to look at in a block.")
    final_agenda: ScheduleItem[UnitId] = ScheduleItem("final", doc="Units to look at once a height is final.")
    draws: ScheduleItem[AgedUnit] = ScheduleItem(
        "draw",
        doc="Units to draw racers for once a height is final, those that were posted first before the others.",
        hasher=Hasher.IDENTITY,
    )
    rising: ScheduleItem[UnitId] = ScheduleItem(doc="Sleeping units whose price meets an ask in a block.")
    expiring: ScheduleItem[UnitId] = ScheduleItem(doc="Ended units whose records are dropped in a block.")

    def all_agendas(self) -> "Agenda":
        """The agenda over this storage."""
        return Agenda(
            system=self.system,
            beacon=self.beacon,
            by_height=self.agenda,
            by_finality=self.final_agenda,
            draws=self.draws,
            rising=self.rising,
            expiring=self.expiring,
        )


@dataclass(frozen=True, slots=True)
class Agenda:
    """The units to call by height and by finality, to draw, to wake, and the records to drop."""

    system: System
    beacon: Beacon
    by_height: ScheduleItem[UnitId]
    by_finality: ScheduleItem[UnitId]
    draws: ScheduleItem[AgedUnit]
    rising: ScheduleItem[UnitId]
    expiring: ScheduleItem[UnitId]

    def at_height(self, height: int, unit: bytes) -> None:
        """Call the unit in block `height`, which has not begun, and in none before."""
        self.by_height.put(height, unit)

    def once_final(self, height: int, unit: bytes) -> None:
        """Call the unit in the first block whose `final_ref` covers `height`, which has not been."""
        self.by_finality.put(height, unit)

    def follow(self, unit: bytes, change: tuple[int | None, int]) -> None:
        """Have the unit called when its race can next change by itself (`race_clocks.next_change`)."""
        deadline, awaited = change
        if deadline is not None:
            self.at_height(max(deadline, self.system.number.get()) + 1, unit)
        if awaited > self.beacon.final_height():
            self.once_final(awaited, unit)

    def draw_at(self, height: int, posted_at: int, unit: bytes) -> None:
        """Draw for the unit once `height` is final, after those that were posted before it.

        By their hashes alone, a unit that lost against some others would lose against them each time, and for ever.
        """
        self.draws.put(height, aged(posted_at, unit))

    def drop_draw(self, posted_at: int, unit: bytes) -> None:
        """Draw for the unit no more."""
        self.draws.drop(aged(posted_at, unit))

    def drop(self, posted_at: int, unit: bytes) -> None:
        """Call a unit that has ended no more."""
        self.drop_draw(posted_at, unit)
        for schedule in (self.by_height, self.by_finality, self.rising):
            schedule.drop(unit)

    def due(self, height_budget: WeightMeter, final_budget: WeightMeter) -> tuple[bytes, ...]:
        """The units to call in this block, each once."""
        final = self.by_finality.take(self.beacon.final_height(), final_budget, STEP_WEIGHT)
        reached = self.by_height.take(self.system.number.get(), height_budget, STEP_WEIGHT)
        return tuple(dict.fromkeys((*final, *reached)))

    def drawable(self, budget: WeightMeter) -> Iterator[bytes]:
        """The units whose beacon is final, while the budget lasts."""
        return (unit_of(key) for key in self.draws.take(self.beacon.final_height(), budget))

    def expired(self, budget: WeightMeter) -> Iterator[bytes]:
        """The ended units whose records are dropped in this block."""
        return self.expiring.take(self.system.number.get(), budget, EXPIRY_WEIGHT)
