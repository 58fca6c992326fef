"""The next unit of a device: it begins when an earlier unit ends, or is recalled from the device.

Invariants: a racer's clock starts in the block in which its device begins the unit, however the earlier one ended. A
recalled unit loses only that racer. Its step in the next block draws it again with its age, or lets the race continue.
Neither a begin nor a recall changes the record of the unit that caused it.
"""

from dataclasses import replace

from gpu_tasks.market.inference import race_clocks, schedules
from gpu_tasks.market.inference.events import RacerRecalled
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.inference.units import UnitState, round_of
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import work

BEGIN_WEIGHT = work(reads=6, writes=5, microseconds=20)
"""The weight of beginning a unit: its record, its service's terms, its schedule."""


def free(market: InferenceStorage, device_id: bytes, unit_id: bytes) -> None:
    """End a device's work on a unit, and begin its next one."""
    _begin(market, market.devices.free(device_id, unit_id), device_id)


def unsecure(market: InferenceStorage, device_id: bytes, unit_id: bytes) -> None:
    """End a device's work on a unit with all its liability, and begin its next one."""
    _begin(market, market.devices.unsecure(device_id, unit_id), device_id)


def recall(market: InferenceStorage, meter: WeightMeter) -> None:
    """Recall units from devices that failed an earlier one, while the budget lasts."""
    for device_id, unit_id in market.devices.recalled_units(meter):
        _recall(market, device_id, unit_id)


def _begin(market: InferenceStorage, unit_id: bytes | None, device_id: bytes) -> None:
    """Start the clock of the device's racer in a unit."""
    if unit_id is None:
        return
    # The hook charges for these at its end: their number is unknown before the earlier units end.
    market.begun.count += 1
    record, current_height = market.units[unit_id], market.height
    assert record is not None, "a device's unit is open"
    started_racers = tuple(
        replace(racer, started_at=current_height) if racer.device == device_id else racer for racer in record.racers
    )
    market.units[unit_id] = replace(record, racers=started_racers)
    windows = market.windows_of(record)
    change = race_clocks.next_change(started_racers, round_of(record), windows)
    schedules.follow(market, unit_id, change)


def _recall(market: InferenceStorage, device_id: bytes, unit_id: bytes) -> None:
    record = market.units[unit_id]
    if record is None or record.state is not UnitState.RACING:
        return
    recalled_racer = next((racer for racer in record.racers if racer.device == device_id), None)
    # Recalls wait for their budget: the race may have ended or replaced this racer meanwhile.
    if recalled_racer is None or not race_clocks.is_open(recalled_racer):
        return
    market.devices.unsecure(device_id, unit_id)
    del market.duties[recalled_racer.owner, unit_id]
    remaining_racers = tuple(racer for racer in record.racers if racer is not recalled_racer)
    market.units[unit_id] = replace(record, racers=remaining_racers)
    market.agenda.put(market.height + 1, unit_id)
    market.emit(RacerRecalled(unit_id, record.attempt, recalled_racer.owner))
