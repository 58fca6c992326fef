"""The pallet Devices: GPUs with their owners, bonds and drawn units.

Invariants:

* A device works on one unit or task at a time ("one user per GPU").
* It has at most as many units behind it as its owner set, each from its draw until the owner commits, declines or
  misses.
* `secured` is the collateral of its unsettled units.
* Its bond is held on its owner's account: `secured` of it as collateral, each part for its unit, the rest for the
  device.
* Payments for a unit come only from the unit's own part.
* One physical device registers once.
"""

from dataclasses import replace
from typing import Annotated, Any

from gpu_tasks.market.devices import run_queue
from gpu_tasks.market.devices.device_work import DeviceWork
from gpu_tasks.market.devices.events import (
    DeviceAssigned,
    DeviceBonded,
    DeviceBondTooSmall,
    DeviceBusy,
    DeviceKnown,
    DevicePaused,
    DeviceQueueSet,
    DeviceRegistered,
    DeviceResumed,
    DeviceUnregistered,
    NotOwner,
    NotProvider,
    ProviderRegistered,
    ProviderUnregistered,
    QueueTooLong,
    TooManyDevices,
    UnknownDevice,
    UnsafeSealKey,
)
from gpu_tasks.market.devices.records import (
    CLASS_NAMES,
    COLLATERAL,
    DEVICES_PER_PROVIDER_MAX,
    ENDPOINT_BYTES_MAX,
    FREE_BOND,
    PROVIDER_DEPOSIT,
    QUEUE_MAX,
    Device,
    DeviceClass,
    Provider,
    device_id_of,
    is_safe_seal_key,
    provider_hold,
)
from gpu_tasks.market.ids import DeviceId
from gpu_tasks.market.weights import WEIGHTS
from runtime.cryptography.ss58 import account_from_text
from runtime.encoding.codec import U8, U32, Bounded
from runtime.encoding.types import GRAINS_PER_OGPU, AccountId, Balance, CompactBalance, Hash, Weight
from runtime.frame.pallet import (
    Hold,
    Parameter,
    Signed,
    StorageDoubleMap,
    StorageMap,
    call,
    ensure,
    genesis_entry,
    known,
)
from runtime.frame.schedule import WeightMeter
from runtime.pallets.staking.stakers import PublicKey
from runtime.pallets.staking.trust_stake import TrustStake

BOND_REASON = "Least bond of a working device of this class. A provider needs something to lose."
BOND_LEAST, BOND_GREATEST = GRAINS_PER_OGPU // 100, 100_000 * GRAINS_PER_OGPU

Endpoint = Annotated[bytes, Bounded(ENDPOINT_BYTES_MAX)]


class Devices(DeviceWork, index=9):
    """Providers and their devices."""

    storage_version = 1

    stake: TrustStake

    cpu_bond_min: Parameter[Balance] = Parameter(
        GRAINS_PER_OGPU, unit="grains", least=BOND_LEAST, greatest=BOND_GREATEST, doc=BOND_REASON
    )
    consumer_bond_min: Parameter[Balance] = Parameter(
        GRAINS_PER_OGPU, unit="grains", least=BOND_LEAST, greatest=BOND_GREATEST, doc=BOND_REASON
    )
    datacenter_bond_min: Parameter[Balance] = Parameter(
        GRAINS_PER_OGPU, unit="grains", least=BOND_LEAST, greatest=BOND_GREATEST, doc=BOND_REASON
    )
    provider_deposit: Parameter[Balance] = Parameter(
        GRAINS_PER_OGPU // 10, unit="grains", least=GRAINS_PER_OGPU // 100, greatest=100 * GRAINS_PER_OGPU,
        doc="Deposit for a provider's record, until the record is dropped. Every node keeps the record.",
    )  # fmt: skip

    providers: StorageMap[AccountId, Provider | None] = StorageMap(
        doc="Seal key and store address of a provider, by stash."
    )
    device_of_uuid: StorageMap[Hash, DeviceId | None] = StorageMap(doc="The device with this hardware.")
    device_count: StorageMap[AccountId, U32] = StorageMap(default=0, doc="The number of a provider's devices.")
    devices_of: StorageDoubleMap[AccountId, DeviceId, bool] = StorageDoubleMap(
        default=False, doc="The devices of a provider."
    )
    principals: StorageMap[AccountId, AccountId | None] = StorageMap(
        doc="The account that owns an account without a key, such as that of a budget."
    )
    events = (
        ProviderRegistered, DeviceRegistered, DeviceUnregistered, DeviceBonded, DeviceAssigned, DevicePaused,
        DeviceResumed, ProviderUnregistered, DeviceQueueSet,
    )  # fmt: skip
    errors = (
        NotProvider, NotOwner, UnknownDevice, DeviceKnown, DeviceBusy, TooManyDevices, DeviceBondTooSmall,
        UnsafeSealKey, QueueTooLong,
    )  # fmt: skip
    hold_reasons = (FREE_BOND, COLLATERAL, PROVIDER_DEPOSIT)

    @call(index=0, weight=WEIGHTS["Devices.register_provider"])
    def register_provider(self, origin: Signed, seal_key: PublicKey, endpoint: Endpoint) -> None:
        """Publish your seal key and the address of your blob store. The signer is the stash of a bonded candidate.

        The first registration holds a deposit until the record is dropped. Raise NotProvider if the signer is no
        candidate.
        """
        stash = origin.account
        # The chain does not parse the address: each program does so before it connects (`data/endpoint.py`).
        ensure(self.stake.is_candidate(stash), NotProvider)
        # With a key of small order, any account could open the inputs sealed to it.
        ensure(is_safe_seal_key(seal_key), UnsafeSealKey)
        standing = self.providers[stash]
        deposit_grains = self.provider_deposit if standing is None else standing.deposit
        if standing is None:
            self.lock.lock(stash, provider_hold(stash), deposit_grains)
        self._set_provider(stash, seal_key, endpoint, deposit_grains)

    @call(index=1, weight=WEIGHTS["Devices.register_device"])
    def register_device(self, origin: Signed, kind: DeviceClass, uuid_hash: Hash, bond: CompactBalance) -> None:
        """Register a device with a bond from the signer, the stash of a provider."""
        ensure(origin.account in self.providers and self.stake.is_candidate(origin.account), NotProvider)
        self._add_device(origin.account, kind, uuid_hash, bond)

    @call(index=2, weight=WEIGHTS["Devices.unregister_device"])
    def unregister_device(self, origin: Signed, device: DeviceId) -> None:
        """Remove your device from the market and take its bond back. It must offer no service and have no open unit."""
        leaving = self.owned(device, origin.account)
        ensure(leaving.assignment is None and leaving.secured == 0 and leaving.offers == 0, DeviceBusy)
        self._check_bond(device, leaving)
        del self.devices[device]
        del self.device_of_uuid[leaving.uuid_hash]
        if self.device_count[leaving.owner] > 1:
            self.device_count[leaving.owner] -= 1
        else:
            del self.device_count[leaving.owner]
        del self.devices_of[leaving.owner, device]
        self.lock.unlock(leaving.owner, Hold(FREE_BOND, device), leaving.bond)
        self.lock.end(Hold(FREE_BOND, device))
        self.emit(DeviceUnregistered(device, leaving.owner))

    @call(index=3, weight=WEIGHTS["Devices.bond_device_extra"])
    def bond_device_extra(self, origin: Signed, device: DeviceId, value: CompactBalance) -> None:
        """Add to your device's bond. It secures more units at once, and weighs more in draws of later units."""
        record = self.owned(device, origin.account)
        self.lock.lock(record.owner, Hold(FREE_BOND, device), value)
        # Sets `changed_at`: more bond after the beacon is known must not weigh in that draw.
        self.devices[device] = replace(record, bond=record.bond + value, changed_at=self.system.number.get())
        self.stir(device)
        self.emit(DeviceBonded(device, value))

    @call(index=4, weight=WEIGHTS["Devices.pause"])
    def pause(self, origin: Signed, device: DeviceId) -> None:
        """Stop new work of a device. Assigned work continues. The signer is the stash or its provider key."""
        record = self.owned(device, self.operator(origin.account))
        self.devices[device] = replace(record, is_paused=True)
        self.emit(DevicePaused(device, None))

    @call(index=5, weight=WEIGHTS["Devices.resume"])
    def resume(self, origin: Signed, device: DeviceId) -> None:
        """Let a paused device take work again. The signer is the stash or its provider key."""
        paused_device = self.owned(device, self.operator(origin.account))
        ensure(paused_device.bond >= self.bond_min(paused_device.kind), DeviceBondTooSmall)
        # Its recalled units still name it: with new ones behind it, a second recall would overwrite the first.
        ensure(device not in self.requeued_units, DeviceBusy)
        # Sets `changed_at`: a resume after the beacon is known must not bring the device into that draw.
        self.devices[device] = replace(paused_device, is_paused=False, changed_at=self.system.number.get())
        self.stir(device)
        self.emit(DeviceResumed(device))

    @call(index=6, weight=WEIGHTS["Devices.unregister_provider"])
    def unregister_provider(self, origin: Signed) -> None:
        """End your registration as provider, once you have no device. The deposit comes back."""
        stash = origin.account
        ensure(self.device_count[stash] == 0, DeviceBusy)
        record = known(self.providers[stash], NotProvider)
        del self.providers[stash]
        self.lock.unlock(stash, provider_hold(stash), record.deposit)
        self.lock.end(provider_hold(stash))
        self.emit(ProviderUnregistered(stash))

    @call(index=7, weight=WEIGHTS["Devices.set_queue"])
    def set_queue(self, origin: Signed, device: DeviceId, queue: U8) -> None:
        """Set the number of units that a device takes while it works on one.

        The signer is the stash or its provider key. The units that it already has stay.
        """
        ensure(queue <= QUEUE_MAX, QueueTooLong)
        record = self.owned(device, self.operator(origin.account))
        ensure(device not in self.requeued_units, DeviceBusy)
        # Sets `changed_at`: places added after the beacon is known must not bring the device into that draw.
        self.devices[device] = replace(record, queue=queue, changed_at=self.system.number.get())
        self.stir(device)
        self.emit(DeviceQueueSet(device, queue))

    def genesis(self, config: dict[str, Any]) -> None:
        """Register the first providers and devices. Their owners are validators that TrustStake seated.

        `{"providers": [{"stash", "seal_key", "endpoint"}], "devices": [{"owner", "kind", "uuid_hash", "bond", ...}]}`;
        a device's `queue_length` is 0 by default. Raise ValueError for a bad entry.
        """
        for entry in config.get("providers", []):
            stash, endpoint = account_from_text(entry["stash"]), str(entry["endpoint"]).encode()
            if not self.stake.is_candidate(stash):
                raise ValueError(f"genesis provider {entry['stash']}: not a candidate")
            with genesis_entry(f"genesis provider {entry['stash']}"):
                self._set_provider(stash, account_from_text(entry["seal_key"]), endpoint, deposit_grains=0)
        for entry in config.get("devices", []):
            kind = CLASS_NAMES[str(entry["kind"])]
            owner = account_from_text(entry["owner"])
            uuid_hash = account_from_text(entry["uuid_hash"])
            with genesis_entry(f"genesis device of {entry['owner']}"):
                device_id = self._add_device(owner, kind, uuid_hash, int(entry["bond"]))
            queue_length = int(entry.get("queue", 0))
            if not 0 <= queue_length <= QUEUE_MAX:
                raise ValueError(f"genesis device of {entry['owner']}: queue length outside 0 to {QUEUE_MAX}")
            self.devices[device_id] = replace(self._registered(device_id), queue=queue_length)

    # ------------------------------------------------------------------------------------------------ for the markets

    def operator(self, account_id: bytes) -> bytes:
        """Return the stash that an account acts for: itself if it is one, or the one that names it as provider key.

        A stash does not prove possession of its provider key. An account that is a stash itself therefore acts for
        itself, even if another stash names it as key. An account that is neither is returned unchanged. An account
        without a key acts for its owner, so that no device of the owner is drawn for its work.
        """
        stash = self._stash(account_id)
        if stash is not None:
            return stash
        principal = self.principals[account_id]
        return account_id if principal is None else self._stash(principal) or principal

    def _stash(self, account_id: bytes) -> bytes | None:
        if account_id in self.providers or account_id in self.stake.candidates:
            return account_id
        return self.stake.stash_of(account_id)

    def name_principal(self, account_id: bytes, principal: bytes) -> None:
        """Let an account without a key act for its owner, which has a key."""
        self.principals[account_id] = principal

    def drop_principal(self, account_id: bytes) -> None:
        """Let an account without a key act for nobody."""
        del self.principals[account_id]

    def owned(self, device_id: bytes, owner: bytes) -> Device:
        """Return the device of this owner.

        Raise UnknownDevice if there is none, and NotOwner if it belongs to another owner.
        """
        record = known(self.devices[device_id], UnknownDevice)
        ensure(record.owner == owner, NotOwner)
        return record

    def bond_min(self, kind: DeviceClass) -> int:
        """Return the least bond of a device of one class, in grains."""
        return (self.cpu_bond_min, self.consumer_bond_min, self.datacenter_bond_min)[kind]

    def can_work(self, device: Device) -> bool:
        """Return True if the device may get a unit: it has a free place and is in service."""
        return run_queue.has_place(device) and self._is_in_service(device)

    def is_free(self, device: Device) -> bool:
        """Return True if the device may get a task: it has no work and is in service."""
        return device.assignment is None and self._is_in_service(device)

    def can_serve(self, device: Device) -> bool:
        """Return True if the device may get a session: it is in service, and no task has it to itself."""
        return not device.is_dedicated and self._is_in_service(device)

    def _is_in_service(self, device: Device) -> bool:
        """Return True if the device is not paused and its owner is a candidate that can open inputs."""
        return not device.is_paused and device.owner in self.providers and self.stake.is_candidate(device.owner)

    def count_offer(self, device: bytes, added_offers: int) -> None:
        """Add `added_offers` (1 or -1) to the number of services that a device offers."""
        record = self._registered(device)
        assert record.offers + added_offers >= 0, "a device has no more withdrawals than offers"
        self.devices[device] = replace(record, offers=record.offers + added_offers)

    def welcome(self, weight_meter: WeightMeter, slot_weight: Weight) -> None:
        """Report the slots of owners that became candidates again, while the budget lasts. Each costs `slot_weight`."""
        newcomers = self.stake.new_candidates.keys()
        for stash in newcomers:
            if weight_meter.is_spent:
                return
            for device_id, _ in self.devices_of.under(stash):
                self.stir(device_id)
                weight_meter.spend(slot_weight)
            weight_meter.spend(slot_weight)
            self.stake.forget_newcomer(stash)

    # ----------------------------------------------------------------------------------------------------- bookkeeping

    def _set_provider(self, stash: bytes, seal_key: bytes, endpoint: bytes, deposit_grains: int) -> None:
        previous = self.providers[stash]
        # The same key keeps its age: a registration that only changes the address must not shut the owner out of draws.
        is_same_key = previous is not None and previous.seal_key == seal_key
        key_since = previous.key_since if previous is not None and is_same_key else self.system.number.get()
        self.providers[stash] = Provider(seal_key, endpoint, key_since, deposit_grains)
        self.emit(ProviderRegistered(stash, seal_key, endpoint))

    def _add_device(self, owner: bytes, kind: DeviceClass, uuid_hash: bytes, bond_grains: int) -> DeviceId:
        # Otherwise one GPU could take bonds and work under several owners.
        ensure(uuid_hash not in self.device_of_uuid, DeviceKnown)
        ensure(self.device_count[owner] < DEVICES_PER_PROVIDER_MAX, TooManyDevices)
        ensure(bond_grains >= self.bond_min(kind), DeviceBondTooSmall)
        device_id, current_height = device_id_of(owner, uuid_hash), self.system.number.get()
        self.lock.lock(owner, Hold(FREE_BOND, device_id), bond_grains)
        self.devices[device_id] = Device(
            owner, kind, uuid_hash, bond_grains, registered_at=current_height, changed_at=current_height
        )
        self.device_of_uuid[uuid_hash] = device_id
        self.device_count[owner] += 1
        self.devices_of[owner, device_id] = True
        self.emit(DeviceRegistered(device_id, owner, kind, uuid_hash, bond_grains))
        return device_id
