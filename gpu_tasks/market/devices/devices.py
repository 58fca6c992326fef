"""Devices: who owns which GPU, what it is bonded with, and the one unit it works on.

Always: a device has at most one active assignment ("one user per GPU"), from the draw until its
owner commits, declines or misses; `secured` is the collateral of its units that are not settled;
its bond is held on its owner's account: `secured` of it as collateral, each part for its unit, the rest for the
device. A unit is paid from its own part and from nothing else. One physical device registers once.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from gpu_tasks.market.devices.endpoints import is_store_address
from gpu_tasks.market.devices.events import (
    BadEndpoint,
    DeviceAssigned,
    DeviceBonded,
    DeviceBondTooSmall,
    DeviceBusy,
    DeviceKnown,
    DevicePaused,
    DeviceRegistered,
    DeviceResumed,
    DeviceUnregistered,
    Expelled,
    NotGone,
    NotOwner,
    NotProvider,
    ProviderRegistered,
    ProviderUnregistered,
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
    Device,
    DeviceClass,
    Provider,
    device_id,
    is_safe_seal_key,
    provider_hold,
)
from gpu_tasks.market.ids import DeviceId, UnitId
from gpu_tasks.market.weights import WEIGHTS
from runtime.cryptography.ss58 import account_from_text
from runtime.encoding.codec import U32, Bounded
from runtime.encoding.types import GRAINS_PER_OGPU, AccountId, Balance, BlockNumber, CompactBalance, Hash, Weight
from runtime.frame.agenda import Budget, Schedule
from runtime.frame.pallet import (
    Hasher,
    Hold,
    Pallet,
    Parameter,
    Signed,
    StorageDoubleMap,
    StorageMap,
    StorageValue,
    call,
    ensure,
    known,
)
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.stakers import PublicKey
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System

BOND_REASON = "Least bond of a device of this class: who takes work must have something to lose."
BOND_LEAST, BOND_GREATEST = GRAINS_PER_OGPU // 100, 100_000 * GRAINS_PER_OGPU

Endpoint = Annotated[bytes, Bounded(ENDPOINT_BYTES_MAX)]


class Devices(Pallet, index=9):
    """Providers and their devices."""

    system: System
    stake: TrustStake
    lock: TrustLock

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
        doc="Held for a provider's record while there is one: every node keeps it, also when its owner has left.",
    )  # fmt: skip

    providers: StorageMap[AccountId, Provider | None] = StorageMap(doc="How to reach a provider, by stash.")
    devices: StorageMap[DeviceId, Device | None] = StorageMap(doc="Every device.")
    expelled_until: StorageMap[AccountId, BlockNumber] = StorageMap(
        default=0, doc="The block up to which a stash that was expelled may not be a provider again."
    )
    device_of_uuid: StorageMap[Hash, DeviceId | None] = StorageMap(doc="The device that has this hardware.")
    device_count: StorageMap[AccountId, U32] = StorageMap(default=0, doc="Devices of a provider.")
    devices_of: StorageDoubleMap[AccountId, DeviceId, bool] = StorageDoubleMap(
        default=False, doc="The devices of a provider."
    )
    stirred: StorageDoubleMap[BlockNumber, DeviceId, bool] = StorageDoubleMap(
        default=False,
        hashers=(Hasher.TWOX_64_CONCAT, Hasher.BLAKE2_128_CONCAT),
        doc="Slots that were freed or changed, by the block that tells the market.",
    )
    stirred_place: StorageMap[DeviceId, BlockNumber] = StorageMap(
        default=0, doc="The block that tells the market of a slot."
    )
    stirred_cursor: StorageValue[BlockNumber] = StorageValue(default=0, doc="The market was told up to here.")

    events = (
        ProviderRegistered, DeviceRegistered, DeviceUnregistered, DeviceBonded, DeviceAssigned, DevicePaused,
        DeviceResumed, ProviderUnregistered,
    )  # fmt: skip
    errors = (
        NotProvider, NotOwner, UnknownDevice, DeviceKnown, DeviceBusy, TooManyDevices, DeviceBondTooSmall, BadEndpoint,
        UnsafeSealKey, Expelled, NotGone,
    )  # fmt: skip
    hold_reasons = (FREE_BOND, COLLATERAL, PROVIDER_DEPOSIT)

    @call(index=0, weight=WEIGHTS["Devices.register_provider"])
    def register_provider(self, origin: Signed, seal_key: PublicKey, endpoint: Endpoint) -> None:
        """Publish the key that inputs are sealed to, and where the blob store answers. The signer is the stash.

        The first time it holds a deposit, until the record is dropped.
        """
        stash = origin.account
        ensure(self.stake.is_candidate(stash), NotProvider)
        until = self.expelled_until[stash]
        ensure(not until or self.system.number.get() > until, Expelled)
        ensure(is_store_address(endpoint), BadEndpoint)
        ensure(is_safe_seal_key(seal_key), UnsafeSealKey)
        if until:
            del self.expelled_until[stash]
        standing = self.providers[stash]
        deposit = self.provider_deposit if standing is None else standing.deposit
        if standing is None:
            self.lock.lock(stash, provider_hold(stash), deposit)
        self._set_provider(stash, seal_key, endpoint, deposit)

    @call(index=1, weight=WEIGHTS["Devices.register_device"])
    def register_device(self, origin: Signed, kind: DeviceClass, uuid_hash: Hash, bond: CompactBalance) -> None:
        """Bring a device into the market with a bond of the signer's, who is a provider's stash."""
        ensure(origin.account in self.providers and self.stake.is_candidate(origin.account), NotProvider)
        self._add_device(origin.account, kind, uuid_hash, bond)

    @call(index=2, weight=WEIGHTS["Devices.unregister_device"])
    def unregister_device(self, origin: Signed, device: DeviceId) -> None:
        """Take a device out of the market and its bond back, once it offers nothing and no unit of its is open."""
        left = self.owned(device, origin.account)
        ensure(left.assignment is None and left.secured == 0 and left.offers == 0, DeviceBusy)
        self._check_bond(device, left)
        del self.devices[device]
        del self.device_of_uuid[left.uuid_hash]
        if self.device_count[left.owner] > 1:
            self.device_count[left.owner] -= 1
        else:
            del self.device_count[left.owner]
        del self.devices_of[left.owner, device]
        self.lock.unlock(left.owner, Hold(FREE_BOND, device), left.bond)
        self.lock.end(Hold(FREE_BOND, device))
        self.emit(DeviceUnregistered(device, left.owner))

    @call(index=3, weight=WEIGHTS["Devices.bond_device_extra"])
    def bond_device_extra(self, origin: Signed, device: DeviceId, value: CompactBalance) -> None:
        """Add to a device's bond: more units at once, and more weight in draws from the next units on."""
        before = self.owned(device, origin.account)
        self.lock.lock(before.owner, Hold(FREE_BOND, device), value)
        self.devices[device] = replace(before, bond=before.bond + value, changed_at=self.system.number.get())
        self.stir(device)
        self.emit(DeviceBonded(device, value))

    @call(index=4, weight=WEIGHTS["Devices.pause"])
    def pause(self, origin: Signed, device: DeviceId) -> None:
        """Take no new work; what is assigned stays. The signer is the stash or its provider key."""
        working = self.owned(device, self.operator(origin.account))
        self.devices[device] = replace(working, is_paused=True)
        self.emit(DevicePaused(device, None))

    @call(index=5, weight=WEIGHTS["Devices.resume"])
    def resume(self, origin: Signed, device: DeviceId) -> None:
        """Take work again. The signer is the stash or its provider key."""
        paused = self.owned(device, self.operator(origin.account))
        ensure(paused.bond >= self.bond_min(paused.kind), DeviceBondTooSmall)
        # changed_at: a resume once a beacon is known must not bring the device into that draw
        self.devices[device] = replace(paused, is_paused=False, changed_at=self.system.number.get())
        self.stir(device)
        self.emit(DeviceResumed(device))

    @call(index=6, weight=WEIGHTS["Devices.unregister_provider"])
    def unregister_provider(self, origin: Signed) -> None:
        """Be a provider no more, once no device is left; the deposit comes back."""
        self._drop_provider(origin.account)

    @call(index=7, weight=WEIGHTS["Devices.drop_provider"])
    def drop_provider(self, origin: Signed, stash: AccountId) -> None:
        """Drop the record of a provider that has left: no candidate, without stake of its own, without devices.

        Anybody may; the deposit goes back to the stash.
        """
        ensure(stash not in self.stake.candidates and not self.stake.bonds[stash], NotGone)
        self._drop_provider(stash)

    def genesis(self, config: dict[str, Any]) -> None:
        """The first providers and devices, of validators that TrustStake seated.

        `{"providers": [{"stash", "seal_key", "endpoint"}], "devices": [{"owner", "kind", "uuid_hash", "bond"}]}`.
        """
        for given in config.get("providers", []):
            stash, endpoint = account_from_text(given["stash"]), str(given["endpoint"]).encode()
            if not is_store_address(endpoint) or not self.stake.is_candidate(stash):
                raise ValueError(f"genesis provider {given['stash']}: no candidate, or no web address")
            self._set_provider(stash, account_from_text(given["seal_key"]), endpoint, deposit=0)
        for given in config.get("devices", []):
            kind = CLASS_NAMES[str(given["kind"])]
            owner, uuid_hash = account_from_text(given["owner"]), account_from_text(given["uuid_hash"])
            self._add_device(owner, kind, uuid_hash, int(given["bond"]))

    # ------------------------------------------------------------------------------------------------ for the markets

    def operator(self, account: bytes) -> bytes:
        """The stash that an account acts for: itself if it is one, or the one whose provider key it is.

        Nobody proves that a provider key is its own, so naming somebody's stash as one's key must change nothing.
        """
        if account in self.providers or account in self.stake.candidates:
            return account
        return self.stake.stash_of(account) or account

    def owned(self, device: bytes, owner: bytes) -> Device:
        """A device of this owner; UnknownDevice or NotOwner if it is none."""
        found = known(self.devices[device], UnknownDevice)
        ensure(found.owner == owner, NotOwner)
        return found

    def bond_min(self, kind: DeviceClass) -> int:
        """The least bond of a device of one class."""
        return (self.cpu_bond_min, self.consumer_bond_min, self.datacenter_bond_min)[kind]

    def can_work(self, device: Device) -> bool:
        """Whether it may be drawn now: free, not paused, its owner a candidate that can open inputs."""
        return (
            device.assignment is None
            and not device.is_paused
            and device.owner in self.providers
            and self.stake.is_candidate(device.owner)
        )

    def count_offer(self, device: bytes, change: int) -> None:
        """Note that a device offers one service more, or less."""
        before = self._registered(device)
        assert before.offers + change >= 0, "no more offers are withdrawn than were made"
        self.devices[device] = replace(before, offers=before.offers + change)

    def stirred_slots(self) -> Schedule[DeviceId]:
        """The slots that were freed or changed: units that sleep may be worth another draw."""
        return Schedule(self.stirred, self.stirred_place, self.stirred_cursor)

    def stir(self, device: bytes) -> None:
        """Have the market told, in the next block, that a slot was freed or changed."""
        # told then, not now: a call that frees a slot shall not pay for looking who sleeps
        if not self.stirred_place[device]:
            self.stirred_slots().put(self.system.number.get() + 1, device)

    def welcome(self, budget: Budget, each: Weight) -> None:
        """Stir the slots of owners who came back as candidates, while the budget lasts; `each` is charged for one."""
        coming = self.stake.newcomers.keys()
        for stash in coming:
            if budget.is_spent:
                return
            for device, _ in self.devices_of.under(stash):
                self.stir(device)
                budget.spend(each)
            budget.spend(each)
            self.stake.forget_newcomer(stash)

    def assign(self, device: bytes, unit: UnitId, collateral: int) -> None:
        """Give a free device its one assignment, secured by a part of its bond."""
        free = self._registered(device)
        assert free.assignment is None, "a device has one active assignment"
        self.lock.rededicate(free.owner, Hold(FREE_BOND, device), Hold(COLLATERAL, unit), collateral)
        self.devices[device] = replace(free, assignment=unit, secured=free.secured + collateral)
        self.emit(DeviceAssigned(device, unit))

    def free(self, device: bytes, unit: UnitId) -> None:
        """End the device's work on a unit; what it secures stays."""
        before = self._registered(device)
        if before.assignment == unit:
            # changed_at: its owner chooses when it commits, and must not come into a draw whose beacon it may know
            self.devices[device] = replace(before, assignment=None, changed_at=self.system.number.get())
            self.stir(device)

    def unsecure(self, device: bytes, unit: UnitId) -> None:
        """End everything that binds a device to a unit; what is left of its collateral is the device's again."""
        self.free(device, unit)
        before = self._registered(device)
        left = self.lock.locked(before.owner, Hold(COLLATERAL, unit))
        assert before.secured >= left, "a device secures each unit once"
        self.lock.rededicate(before.owner, Hold(COLLATERAL, unit), Hold(FREE_BOND, device), left)
        self.devices[device] = replace(before, secured=before.secured - left)
        self.stir(device)

    def end_collateral(self, unit: UnitId) -> None:
        """Where a race is over: no device secures the unit any more."""
        self.lock.end(Hold(COLLATERAL, unit))

    def halt(self, device: bytes, unit: UnitId) -> None:
        """Pause a device that failed a unit."""
        self.devices[device] = replace(self._registered(device), is_paused=True)
        self.emit(DevicePaused(device, unit))

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

    def expel(self, stash: bytes, until: int) -> None:
        """End a registration: none of its devices works any more, unless it registers anew after block `until`."""
        self.expelled_until[stash] = until
        if stash in self.providers:
            self._forget_provider(stash)

    # ----------------------------------------------------------------------------------------------------- bookkeeping

    def _registered(self, device: bytes) -> Device:
        found = self.devices[device]
        assert found is not None, "a device that secures a unit or offers a service cannot leave"
        return found

    def _check_bond(self, device: bytes, record: Device) -> None:
        held = self.lock.locked(record.owner, Hold(FREE_BOND, device))
        assert held == record.bond - record.secured, "a device's bond is held, what secures units apart"

    def _drop_provider(self, stash: bytes) -> None:
        ensure(stash in self.providers, NotProvider)
        ensure(self.device_count[stash] == 0, DeviceBusy)
        self._forget_provider(stash)

    def _forget_provider(self, stash: bytes) -> None:
        """Drop a provider's record, and return what was deposited for it."""
        record = known(self.providers[stash], NotProvider)
        del self.providers[stash]
        self.lock.unlock(stash, provider_hold(stash), record.deposit)
        self.lock.end(provider_hold(stash))
        self.emit(ProviderUnregistered(stash))

    def _set_provider(self, stash: bytes, seal_key: bytes, endpoint: bytes, deposit: int) -> None:
        before = self.providers[stash]
        is_same_key = before is not None and before.seal_key == seal_key
        since = before.key_since if before is not None and is_same_key else self.system.number.get()
        self.providers[stash] = Provider(seal_key, endpoint, since, deposit)
        self.emit(ProviderRegistered(stash, seal_key, endpoint))

    def _add_device(self, owner: bytes, kind: DeviceClass, uuid_hash: bytes, bond: int) -> None:
        ensure(uuid_hash not in self.device_of_uuid, DeviceKnown)
        ensure(self.device_count[owner] < DEVICES_PER_PROVIDER_MAX, TooManyDevices)
        ensure(bond >= self.bond_min(kind), DeviceBondTooSmall)
        device, now = device_id(owner, uuid_hash), self.system.number.get()
        self.lock.lock(owner, Hold(FREE_BOND, device), bond)
        self.devices[device] = Device(owner, kind, uuid_hash, bond, registered_at=now, changed_at=now)
        self.device_of_uuid[uuid_hash] = device
        self.device_count[owner] += 1
        self.devices_of[owner, device] = True
        self.emit(DeviceRegistered(device, owner, kind, uuid_hash, bond))
