"""The work and the collateral of devices: the part of the pallet that markets move.

Invariants:

* A device works on one unit or task at a time.
* Its bond is held on its owner's account, each part that secures a unit for that unit.
* Payments for a unit come only from the part that secures it.
* Methods that end a device's work return its next unit, and the market hears of each slot that was freed or changed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated

from gpu_tasks.market.devices import run_queue
from gpu_tasks.market.devices.events import DeviceAssigned, DevicePaused, DeviceQueueSet
from gpu_tasks.market.devices.records import COLLATERAL, FREE_BOND, QUEUE_MAX, Device
from gpu_tasks.market.ids import DeviceId, UnitId
from runtime.encoding.codec import Bounded
from runtime.encoding.types import Hash
from runtime.frame.measured import times
from runtime.frame.pallet import Hold, Pallet, ScheduleItem, StorageMap
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import work
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.system import System

RECALL_WEIGHT = work(reads=12, writes=10)
"""The weight of a unit that loses a racer before its turn: its record, the device with its hold, duty and schedule."""

RecalledUnits = Annotated[tuple[UnitId, ...], Bounded(QUEUE_MAX)]


class DeviceWork(Pallet):
    """Devices as markets use them: free, at work, securing units, charged, paused."""

    system: System
    lock: TrustLock

    devices: StorageMap[DeviceId, Device | None] = StorageMap(doc="Every device.")
    woken_devices: ScheduleItem[DeviceId] = ScheduleItem(
        doc="Devices with a freed or changed slot, by the block that reports them to the market. Sleeping units "
        "may then be drawn."
    )
    requeued_units: StorageMap[DeviceId, RecalledUnits] = StorageMap(
        default=(), doc="Units that waited behind a failed unit of their device. The market reassigns them."
    )

    def stir(self, device_id: bytes) -> None:
        """Report a freed or changed slot to the market in the next block."""
        # Deferred to the next block: a call that frees a slot must not pay for the search among sleeping units.
        if not self.woken_devices.places[device_id]:
            self.woken_devices.put(self.system.number.get() + 1, device_id)

    def assign(self, device_id: bytes, task_id: UnitId) -> None:
        """Assign a free device to a task, to the exclusion of all other work."""
        record = self._registered(device_id)
        assert record.assignment is None, "a device has one active assignment"
        self.devices[device_id] = replace(record, assignment=task_id, is_dedicated=True)
        self.emit(DeviceAssigned(device_id, task_id))

    def engage(self, device_id: bytes, unit_id: UnitId, collateral: int) -> bool:
        """Assign a unit to a device and secure it by `collateral` grains of its bond.

        Return True if the device works on it at once, False if the unit waits behind others.
        """
        engaged_device = run_queue.with_unit(self.secure(device_id, unit_id, collateral), unit_id)
        self.devices[device_id] = engaged_device
        self.emit(DeviceAssigned(device_id, unit_id))
        return engaged_device.assignment == unit_id

    def secure(self, device_id: bytes, case: Hash, collateral: int) -> Device:
        """Secure a case by `collateral` grains of a device's bond, without a change of its units. Return the device."""
        record = self._registered(device_id)
        self.lock.rededicate(record.owner, Hold(FREE_BOND, device_id), Hold(COLLATERAL, case), collateral)
        secured_device = replace(record, secured=record.secured + collateral)
        self.devices[device_id] = secured_device
        return secured_device

    def free(self, device_id: bytes, unit_id: UnitId) -> UnitId | None:
        """End the device's work on a unit, and return its next unit. The collateral stays.

        Return None if the current unit does not change. The device records the block: its owner chooses when to commit,
        and must not enter a draw whose beacon it may know. A device that lost all collateral of the unit may have left
        the market.
        """
        record = self.devices[device_id]
        if record is None or unit_id not in run_queue.units_of(record):
            return None
        freed_device = run_queue.without_unit(record, unit_id, self.system.number.get())
        self.devices[device_id] = freed_device
        self.stir(device_id)
        return freed_device.assignment if freed_device.assignment != record.assignment else None

    def unsecure(self, device_id: bytes, unit_id: UnitId) -> UnitId | None:
        """End everything that binds a device to a unit, and free the rest of its collateral.

        Return the device's next unit, as `free` does. A device that has left the market holds no collateral: it could
        not leave while it held any, and a race that is over holds none (`end_collateral`).
        """
        following = self.free(device_id, unit_id)
        record = self.devices[device_id]
        if record is None:
            return None
        remaining_grains = self.lock.locked(record.owner, Hold(COLLATERAL, unit_id))
        assert record.secured >= remaining_grains, "a device secures each unit once"
        self.lock.rededicate(record.owner, Hold(COLLATERAL, unit_id), Hold(FREE_BOND, device_id), remaining_grains)
        self.devices[device_id] = replace(record, secured=record.secured - remaining_grains)
        self.stir(device_id)
        return following

    def end_collateral(self, unit_id: UnitId) -> None:
        """End the collateral of a unit whose race is over."""
        self.lock.end(Hold(COLLATERAL, unit_id))

    def halt(self, device_id: bytes, unit_id: UnitId) -> None:
        """Pause a device that failed a unit, and recall the units that wait behind its current one."""
        self._recall_behind(device_id)
        self.devices[device_id] = replace(self._registered(device_id), is_paused=True)
        self.emit(DevicePaused(device_id, unit_id))

    def close_queue(self, device_id: bytes) -> None:
        """Recall the units that wait behind a device's current one, and set its queue to 0.

        The queue was too long for the device. Its owner may set it again.
        """
        if self._recall_behind(device_id):
            self.devices[device_id] = replace(self._registered(device_id), queue=0, changed_at=self.system.number.get())
            self.emit(DeviceQueueSet(device_id, 0))

    def recalled_units(self, meter: WeightMeter) -> Iterator[tuple[DeviceId, UnitId]]:
        """Yield each device with a unit to recall from it, while the budget lasts. Each pair is yielded once."""
        device_ids = self.requeued_units.keys()
        for device_id in device_ids:
            if meter.is_spent:
                return
            units = self.requeued_units[device_id]
            del self.requeued_units[device_id]
            meter.spend(times(len(units), RECALL_WEIGHT))
            yield from ((device_id, unit_id) for unit_id in units)

    def collateral_of(self, owner: bytes, unit_id: UnitId) -> int:
        """Return the grains that the owner's device holds for a unit."""
        return self.lock.locked(owner, Hold(COLLATERAL, unit_id))

    def charge(self, device_id: bytes, unit: UnitId, shares: Sequence[Share]) -> None:
        """Pay the shares from a device's collateral of one unit. The collateral of other units is not touched."""
        record = self._registered(device_id)
        self._check_bond(device_id, record)
        paid_grains = sum(share.amount for share in shares)
        self.lock.pay_out(record.owner, Hold(COLLATERAL, unit), shares)
        self.devices[device_id] = replace(record, bond=record.bond - paid_grains, secured=record.secured - paid_grains)

    def _recall_behind(self, device_id: bytes) -> bool:
        """Note the units behind a device's current one for recall. Return True if there are any."""
        record = self._registered(device_id)
        if not record.behind:
            return False
        # A device with units to recall can neither resume nor take units, so it has no unit behind its current one.
        assert device_id not in self.requeued_units, "recalled units are reassigned before their device takes others"
        self.devices[device_id] = replace(record, behind=())
        self.requeued_units[device_id] = record.behind
        return True

    def _registered(self, device_id: bytes) -> Device:
        record = self.devices[device_id]
        assert record is not None, "a device that secures a unit or offers a service is registered"
        return record

    def _check_bond(self, device_id: bytes, record: Device) -> None:
        held_grains = self.lock.locked(record.owner, Hold(FREE_BOND, device_id))
        assert held_grains == record.bond - record.secured, "a device's unsecured bond is held"
