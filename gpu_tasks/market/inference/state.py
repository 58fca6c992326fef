"""What every part of a unit's life works on. What only some of them need, they are given beside it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.ids import UnitId
from gpu_tasks.market.inference.catalogue import Catalogue
from gpu_tasks.market.inference.schedules import Agenda
from gpu_tasks.market.inference.sleeping.sleepers import Sleepers
from gpu_tasks.market.inference.units import Unit
from runtime.encoding.types import AccountId
from runtime.frame.pallet import StorageDoubleMap, StorageMap
from runtime.pallets.beacon import Beacon
from runtime.pallets.system import System


@dataclass(frozen=True, slots=True)
class MarketState:
    """The market as a block finds it: its units, what is known of devices and services, height and finality."""

    system: System
    beacon: Beacon
    devices: Devices
    capacity: Capacity
    catalogue: Catalogue
    agenda: Agenda
    sleepers: Sleepers
    units: StorageMap[UnitId, Unit | None]
    duties: StorageDoubleMap[AccountId, UnitId, bool]
    emit: Callable[[Any], None]
    """Puts an event into the block."""
