"""A place of a race that was declined is drawn again, once, while nobody has committed.

Always: a unit waits for such a draw only while its commits are open and nobody has committed, and its decliner is the
only owner that stands for a decline of it; it is drawn like any other, with the beacon of two blocks after the decline;
who is drawn has a whole lease, and whoever was drawn before may commit in every block meanwhile.
"""

from dataclasses import dataclass, replace

from gpu_tasks.market import rounds
from gpu_tasks.market.draws import BEACON_DELAY, FreeSlot, Wanted
from gpu_tasks.market.inference.events import PlaceRefilled
from gpu_tasks.market.inference.slots import Slots
from gpu_tasks.market.inference.state import MarketState
from gpu_tasks.market.inference.units import OpenUnit, Racer, Unit, declines_of, round_of


@dataclass(frozen=True, slots=True)
class Refilling:
    """Asks for the draw of a declined place, calls it off, and carries it out."""

    state: MarketState

    def after_decline(self, unit: OpenUnit) -> OpenUnit:
        """Ask for a draw where the place may be filled; else wait for none any more."""
        if not _may_refill(unit.record):
            return self.call_off(unit)
        height = self.state.system.number.get()
        self.state.agenda.draw_at(height + BEACON_DELAY, unit.record.posted_at, unit.id)
        return OpenUnit(unit.id, replace(unit.record, recorded_at=height, is_refilling=True))

    def call_off(self, unit: OpenUnit) -> OpenUnit:
        """Wait for no draw any more: somebody has committed, another has declined, or commits are closed."""
        if not unit.record.is_refilling:
            return unit
        self.state.agenda.drop_draw(unit.record.posted_at, unit.id)
        return OpenUnit(unit.id, replace(unit.record, is_refilling=False))

    def fill(self, unit: OpenUnit, slots: Slots) -> None:
        """Draw a slot for the place, now that its beacon is final; where none is found, the race goes on as it is."""
        record, height = replace(unit.record, is_refilling=False), self.state.system.number.get()
        wanted = slots.wanted(record, record.price)
        drawn = self._draw(record, wanted, slots, height)
        if drawn:
            record = self._with_substitute(unit.id, record, slots.engage(drawn[0], unit.id, wanted.collateral), height)
            self.state.agenda.once_final(height, unit.id)
        self.state.units[unit.id] = record

    def _draw(self, record: Unit, wanted: Wanted, slots: Slots, height: int) -> list[FreeSlot]:
        seed = self.state.beacon.value_at(record.recorded_at + BEACON_DELAY)
        windows = record.rules.race_windows(self.state.catalogue.lease_of(record))
        # Finality stood still for longer than the beacon remembers; or the lease is over, and the block that ends the
        # race had too much to do: who was drawn now would begin it anew.
        if seed is None or not rounds.can_commit(round_of(record), windows, height):
            return []
        return slots.draw(record.service, wanted, 1, seed)

    def _with_substitute(self, unit_id: bytes, record: Unit, substitute: Racer, height: int) -> Unit:
        """The race with somebody else in the place of who declined, who still stands for that."""
        (declined,) = (racer for racer in record.racers if racer.has_declined)
        del self.state.duties[declined.owner, unit_id]
        self.state.emit(PlaceRefilled(unit_id, record.attempt, substitute.owner, declined.owner))
        return replace(
            record,
            racers=tuple(substitute if racer == declined else racer for racer in record.racers),
            decliners=(*record.decliners, declined),
            round=rounds.refilled(round_of(record), height),
        )


def _may_refill(record: Unit) -> bool:
    """Whether others race on, none of whom has committed, and no owner but one has declined."""
    current = round_of(record)
    return not current.first_commit and not current.closed_at and declines_of(record) == 1
