"""Whose turn it is on a device: a unit that ends there lets the next one begin, and its clock run.

Always: a racer's clock begins in the block in which its device turns to the unit, whatever ended the one before; a unit
whose racer is recalled loses that racer alone, and is called in the next block: it is drawn again with its age, or the
race goes on. Neither changes the unit that was the cause.
"""

from dataclasses import dataclass, replace

from gpu_tasks.market.inference import race_clocks
from gpu_tasks.market.inference.events import RacerRecalled
from gpu_tasks.market.inference.state import MarketState
from gpu_tasks.market.inference.units import UnitState, round_of
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import work

BEGIN_WEIGHT = work(reads=6, writes=5, microseconds=20)
"""A unit whose racer turns to it: its record, its service's terms, when it is called."""


@dataclass(slots=True)
class BegunUnits:
    """How many units have begun because others ended."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class DeviceTurns:
    """Frees devices, lets what is behind begin, and recalls what must not wait any more."""

    state: MarketState
    begun: BegunUnits

    def free(self, device: bytes, unit_id: bytes) -> None:
        """A device is done with a unit."""
        self._begin(self.state.devices.free(device, unit_id), device)

    def unsecure(self, device: bytes, unit_id: bytes) -> None:
        """A device is done with a unit, and stands for nothing of it."""
        self._begin(self.state.devices.unsecure(device, unit_id), device)

    def recall(self, budget: WeightMeter) -> None:
        """Take the units from devices that failed one before them, while the budget lasts."""
        for device, unit_id in self.state.devices.recalled_units(budget):
            self._recall(device, unit_id)

    def _begin(self, unit_id: bytes | None, device: bytes) -> None:
        """The unit's racer turns to it."""
        if unit_id is None:
            return
        self.begun.count += 1
        record, height = self.state.units[unit_id], self.state.system.number.get()
        assert record is not None, "a unit that a device has is open"
        racers = tuple(
            replace(racer, started_at=height) if racer.device == device else racer for racer in record.racers
        )
        self.state.units[unit_id] = replace(record, racers=racers)
        windows = record.rules.race_windows(self.state.catalogue.lease_of(record))
        change = race_clocks.next_change(racers, round_of(record), windows)
        self.state.agenda.follow(unit_id, change)

    def _recall(self, device: bytes, unit_id: bytes) -> None:
        record = self.state.units[unit_id]
        if record is None or record.state is not UnitState.RACING:
            return
        racer = next((each for each in record.racers if each.device == device), None)
        if racer is None or not race_clocks.is_open(racer):
            return
        self.state.devices.unsecure(device, unit_id)
        del self.state.duties[racer.owner, unit_id]
        left = tuple(each for each in record.racers if each is not racer)
        self.state.units[unit_id] = replace(record, racers=left)
        self.state.agenda.at_height(self.state.system.number.get() + 1, unit_id)
        self.state.emit(RacerRecalled(unit_id, record.attempt, racer.owner))
