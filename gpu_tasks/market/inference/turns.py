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


def recall(market: InferenceStorage, weight_meter: WeightMeter) -> None:
    """Recall units from devices that failed an earlier one, while the budget lasts."""
    for device_id, unit_id in market.devices.recalled_units(weight_meter):
        _recall(market, device_id, unit_id)


def _begin(market: InferenceStorage, unit_id: bytes | None, device_id: bytes) -> None:
    """Start the clock of the device's racer in a unit."""
    if unit_id is None:
        return
    # The hook charges for these at its end: their number is unknown before the earlier units end.
    market.begun.count += 1
    unit_record, current_height = market.units[unit_id], market.height
    assert unit_record is not None, "a device's unit is open"
    started_racers = tuple(
        replace(unit_racer, started_at=current_height) if unit_racer.device == device_id else unit_racer
        for unit_racer in unit_record.racers
    )
    market.units[unit_id] = replace(unit_record, racers=started_racers)
    race_windows = market.windows_of(unit_record)
    next_change = race_clocks.next_change(started_racers, round_of(unit_record), race_windows)
    schedules.follow(market, unit_id, next_change)


def _recall(market: InferenceStorage, device_id: bytes, unit_id: bytes) -> None:
    unit_record = market.units[unit_id]
    if unit_record is None or unit_record.state is not UnitState.RACING:
        return
    recalled_racer = next((unit_racer for unit_racer in unit_record.racers if unit_racer.device == device_id), None)
    # Recalls wait for their budget: the race may have ended or replaced this racer meanwhile.
    if recalled_racer is None or not race_clocks.is_open(recalled_racer):
        return
    market.devices.unsecure(device_id, unit_id)
    del market.duties[recalled_racer.owner, unit_id]
    remaining_racers = tuple(unit_racer for unit_racer in unit_record.racers if unit_racer is not recalled_racer)
    market.units[unit_id] = replace(unit_record, racers=remaining_racers)
    market.agenda.put(market.height + 1, unit_id)
    market.emit(RacerRecalled(unit_id, unit_record.attempt, recalled_racer.owner))
