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

    def stir(self, device: bytes) -> None:
        """Report a freed or changed slot to the market in the next block."""
        # Deferred to the next block: a call that frees a slot must not pay for the search among sleeping units.
        if not self.woken_devices.places[device]:
            self.woken_devices.put(self.system.number.get() + 1, device)

    def assign(self, device: bytes, task: UnitId) -> None:
        """Assign a free device to a task, to the exclusion of all other work."""
        free = self._registered(device)
        assert free.assignment is None, "a device has one active assignment"
        self.devices[device] = replace(free, assignment=task, is_dedicated=True)
        self.emit(DeviceAssigned(device, task))

    def engage(self, device: bytes, unit: UnitId, collateral: int) -> bool:
        """Assign a unit to a device and secure it by `collateral` grains of its bond.

        Return True if the device works on it at once, False if the unit waits behind others.
        """
        before = self._registered(device)
        self.lock.rededicate(before.owner, Hold(FREE_BOND, device), Hold(COLLATERAL, unit), collateral)
        engaged = replace(run_queue.with_unit(before, unit), secured=before.secured + collateral)
        self.devices[device] = engaged
        self.emit(DeviceAssigned(device, unit))
        return engaged.assignment == unit

    def free(self, device: bytes, unit: UnitId) -> UnitId | None:
        """End the device's work on a unit, and return its next unit. The collateral stays.

        Return None if the current unit does not change. The device records the block: its owner chooses when to commit,
        and must not enter a draw whose beacon it may know. A device that lost all collateral of the unit may have left
        the market.
        """
        before = self.devices[device]
        if before is None or unit not in run_queue.units_of(before):
            return None
        after = run_queue.without_unit(before, unit, self.system.number.get())
        self.devices[device] = after
        self.stir(device)
        return after.assignment if after.assignment != before.assignment else None

    def unsecure(self, device: bytes, unit: UnitId) -> UnitId | None:
        """End everything that binds a device to a unit, and free the rest of its collateral.

        Return the device's next unit, as `free` does. A device that has left the market holds no collateral: it could
        not leave while it held any, and a race that is over holds none (`end_collateral`).
        """
        following = self.free(device, unit)
        before = self.devices[device]
        if before is None:
            return None
        left = self.lock.locked(before.owner, Hold(COLLATERAL, unit))
        assert before.secured >= left, "a device secures each unit once"
        self.lock.rededicate(before.owner, Hold(COLLATERAL, unit), Hold(FREE_BOND, device), left)
        self.devices[device] = replace(before, secured=before.secured - left)
        self.stir(device)
        return following

    def end_collateral(self, unit: UnitId) -> None:
        """End the collateral of a unit whose race is over."""
        self.lock.end(Hold(COLLATERAL, unit))

    def halt(self, device: bytes, unit: UnitId) -> None:
        """Pause a device that failed a unit, and recall the units that wait behind its current one."""
        self._recall_behind(device)
        self.devices[device] = replace(self._registered(device), is_paused=True)
        self.emit(DevicePaused(device, unit))

    def close_queue(self, device: bytes) -> None:
        """Recall the units that wait behind a device's current one, and set its queue to 0.

        The queue was too long for the device. Its owner may set it again.
        """
        if self._recall_behind(device):
            self.devices[device] = replace(self._registered(device), queue=0, changed_at=self.system.number.get())
            self.emit(DeviceQueueSet(device, 0))

    def recalled_units(self, budget: WeightMeter) -> Iterator[tuple[DeviceId, UnitId]]:
        """Yield each device with a unit to recall from it, while the budget lasts. Each pair is yielded once."""
        gone = self.requeued_units.keys()
        for device in gone:
            if budget.is_spent:
                return
            units = self.requeued_units[device]
            del self.requeued_units[device]
            budget.spend(times(len(units), RECALL_WEIGHT))
            yield from ((device, unit) for unit in units)

    def collateral_of(self, owner: bytes, unit: UnitId) -> int:
        """Return the grains that the owner's device holds for a unit."""
        return self.lock.locked(owner, Hold(COLLATERAL, unit))

    def charge(self, device: bytes, unit: UnitId, shares: Sequence[Share]) -> None:
        """Pay the shares from a device's collateral of one unit. The collateral of other units is not touched."""
        before = self._registered(device)
        self._check_bond(device, before)
        taken = sum(share.amount for share in shares)
        self.lock.pay_out(before.owner, Hold(COLLATERAL, unit), shares)
        self.devices[device] = replace(before, bond=before.bond - taken, secured=before.secured - taken)

    def _recall_behind(self, device: bytes) -> bool:
        """Note the units behind a device's current one for recall. Return True if there are any."""
        before = self._registered(device)
        if not before.behind:
            return False
        # A device with units to recall can neither resume nor take units, so it has no unit behind its current one.
        assert device not in self.requeued_units, "recalled units are reassigned before their device takes others"
        self.devices[device] = replace(before, behind=())
        self.requeued_units[device] = before.behind
        return True

    def _registered(self, device: bytes) -> Device:
        found = self.devices[device]
        assert found is not None, "a device that secures a unit or offers a service is registered"
        return found

    def _check_bond(self, device: bytes, record: Device) -> None:
        held = self.lock.locked(record.owner, Hold(FREE_BOND, device))
        assert held == record.bond - record.secured, "a device's unsecured bond is held"
