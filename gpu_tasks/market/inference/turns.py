"""Whose turn it is on a device: a unit that ends there lets the next one begin, and its clock run.

Always: a racer's clock begins in the block in which its device turns to the unit, whatever ended the one before; a unit
whose racer is recalled loses that racer alone, and is called in the next block: it is drawn again with its age, or the
race goes on. Neither changes the unit that was the cause.
"""

from dataclasses import replace

from gpu_tasks.market.inference import race_clocks, schedules
from gpu_tasks.market.inference.events import RacerRecalled
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.inference.units import UnitState, round_of
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import work

BEGIN_WEIGHT = work(reads=6, writes=5, microseconds=20)
"""A unit whose racer turns to it: its record, its service's terms, when it is called."""


def free(market: InferenceStorage, device: bytes, unit_id: bytes) -> None:
    """A device is done with a unit."""
    _begin(market, market.devices.free(device, unit_id), device)


def unsecure(market: InferenceStorage, device: bytes, unit_id: bytes) -> None:
    """A device is done with a unit, and stands for nothing of it."""
    _begin(market, market.devices.unsecure(device, unit_id), device)


def recall(market: InferenceStorage, budget: WeightMeter) -> None:
    """Take the units from devices that failed one before them, while the budget lasts."""
    for device, unit_id in market.devices.recalled_units(budget):
        _recall(market, device, unit_id)


def _begin(market: InferenceStorage, unit_id: bytes | None, device: bytes) -> None:
    """The unit's racer turns to it."""
    if unit_id is None:
        return
    market.begun.count += 1
    record, height = market.units[unit_id], market.height
    assert record is not None, "a unit that a device has is open"
    racers = tuple(replace(racer, started_at=height) if racer.device == device else racer for racer in record.racers)
    market.units[unit_id] = replace(record, racers=racers)
    windows = market.windows_of(record)
    change = race_clocks.next_change(racers, round_of(record), windows)
    schedules.follow(market, unit_id, change)


def _recall(market: InferenceStorage, device: bytes, unit_id: bytes) -> None:
    record = market.units[unit_id]
    if record is None or record.state is not UnitState.RACING:
        return
    racer = next((each for each in record.racers if each.device == device), None)
    if racer is None or not race_clocks.is_open(racer):
        return
    market.devices.unsecure(device, unit_id)
    del market.duties[racer.owner, unit_id]
    left = tuple(each for each in record.racers if each is not racer)
    market.units[unit_id] = replace(record, racers=left)
    market.agenda.put(market.height + 1, unit_id)
    market.emit(RacerRecalled(unit_id, record.attempt, racer.owner))
