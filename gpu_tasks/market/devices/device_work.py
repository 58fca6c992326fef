"""What devices work on, and what secures it: the part of the pallet that markets move.

Always: a device works on one unit or task at a time; its bond is held on its owner's account, each part of it that
secures a unit for that unit; a unit is paid from its own part and from nothing else; whoever gives a device its next
unit is told so, and the market is told of each slot that was freed or changed.
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
"""A unit that loses a racer which has not begun: its record, the device, what that holds for it, duty and agenda."""

RecalledUnits = Annotated[tuple[UnitId, ...], Bounded(QUEUE_MAX)]


class DeviceWork(Pallet):
    """Devices as markets see them: free, at work, secured, charged, halted."""

    system: System
    lock: TrustLock

    devices: StorageMap[DeviceId, Device | None] = StorageMap(doc="Every device.")
    woken_devices: ScheduleItem[DeviceId] = ScheduleItem(
        doc="Slots that were freed or changed, by the block that tells the market: sleepers may be drawn then."
    )
    requeued_units: StorageMap[DeviceId, RecalledUnits] = StorageMap(
        default=(), doc="Units that waited behind one that their device failed: the market gives them to others."
    )

    def stir(self, device: bytes) -> None:
        """Have the market told, in the next block, that a slot was freed or changed."""
        # told then, not now: a call that frees a slot shall not pay for looking who sleeps
        if not self.woken_devices.places[device]:
            self.woken_devices.put(self.system.number.get() + 1, device)

    def assign(self, device: bytes, task: UnitId) -> None:
        """Give a free device to a task, and to nothing else meanwhile."""
        free = self._registered(device)
        assert free.assignment is None, "a device has one active assignment"
        self.devices[device] = replace(free, assignment=task, is_dedicated=True)
        self.emit(DeviceAssigned(device, task))

    def engage(self, device: bytes, unit: UnitId, collateral: int) -> bool:
        """Give a device a unit, secured by a part of its bond; whether it works on it now."""
        before = self._registered(device)
        self.lock.rededicate(before.owner, Hold(FREE_BOND, device), Hold(COLLATERAL, unit), collateral)
        engaged = replace(run_queue.with_unit(before, unit), secured=before.secured + collateral)
        self.devices[device] = engaged
        self.emit(DeviceAssigned(device, unit))
        return engaged.assignment == unit

    def free(self, device: bytes, unit: UnitId) -> UnitId | None:
        """End the device's work on a unit; what it secures stays. The unit that it goes on with, where it is another.

        The block counts: its owner chooses when it commits, and must not come into a draw whose beacon it may know.
        A device that lost all that it held for the unit may have left.
        """
        before = self.devices[device]
        if before is None or unit not in run_queue.units_of(before):
            return None
        after = run_queue.without_unit(before, unit, self.system.number.get())
        self.devices[device] = after
        self.stir(device)
        return after.assignment if after.assignment != before.assignment else None

    def unsecure(self, device: bytes, unit: UnitId) -> UnitId | None:
        """End everything that binds a device to a unit; what is left of its collateral is the device's again.

        The unit that it goes on with, as `free`. Of one that has left there is nothing: it could not while it held any,
        and where the race is over nothing is held (`end_collateral`).
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
        """Where a race is over: no device secures the unit any more."""
        self.lock.end(Hold(COLLATERAL, unit))

    def halt(self, device: bytes, unit: UnitId) -> None:
        """Pause a device that failed a unit; what waited behind the one that it works on is to go to others."""
        self._recall_behind(device)
        self.devices[device] = replace(self._registered(device), is_paused=True)
        self.emit(DevicePaused(device, unit))

    def close_queue(self, device: bytes) -> None:
        """Take from a device what waits behind the one that it works on, and give it nothing ahead from here.

        Its owner may say again how many units it takes: it was too many.
        """
        if self._recall_behind(device):
            self.devices[device] = replace(self._registered(device), queue=0, changed_at=self.system.number.get())
            self.emit(DeviceQueueSet(device, 0))

    def recalled_units(self, budget: WeightMeter) -> Iterator[tuple[DeviceId, UnitId]]:
        """The units that devices shall have no more, while the budget lasts, each with its device; told once."""
        gone = self.requeued_units.keys()
        for device in gone:
            if budget.is_spent:
                return
            units = self.requeued_units[device]
            del self.requeued_units[device]
            budget.spend(times(len(units), RECALL_WEIGHT))
            yield from ((device, unit) for unit in units)

    def collateral_of(self, owner: bytes, unit: UnitId) -> int:
        """What the owner's device holds for a unit."""
        return self.lock.locked(owner, Hold(COLLATERAL, unit))

    def charge(self, device: bytes, unit: UnitId, shares: Sequence[Share]) -> None:
        """Pay the shares out of what a device holds for a unit: what stands for other units is theirs."""
        before = self._registered(device)
        self._check_bond(device, before)
        taken = sum(share.amount for share in shares)
        self.lock.pay_out(before.owner, Hold(COLLATERAL, unit), shares)
        self.devices[device] = replace(before, bond=before.bond - taken, secured=before.secured - taken)

    def _recall_behind(self, device: bytes) -> bool:
        """Have the market give what waits behind the unit that a device works on to others; whether anything did."""
        before = self._registered(device)
        if not before.behind:
            return False
        # a device that has units to be recalled is not resumed and takes none, so it has none behind it meanwhile
        assert device not in self.requeued_units, "units are recalled before a device takes others"
        self.devices[device] = replace(before, behind=())
        self.requeued_units[device] = before.behind
        return True

    def _registered(self, device: bytes) -> Device:
        found = self.devices[device]
        assert found is not None, "a device that secures a unit or offers a service cannot leave"
        return found

    def _check_bond(self, device: bytes, record: Device) -> None:
        held = self.lock.locked(record.owner, Hold(FREE_BOND, device))
        assert held == record.bond - record.secured, "a device's bond is held, what secures units apart"
