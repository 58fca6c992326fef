"""The events and errors of the pallet Devices."""

from typing import Annotated

from gpu_tasks.market.devices.records import ENDPOINT_BYTES_MAX, DeviceClass
from gpu_tasks.market.ids import DeviceId, UnitId
from runtime.encoding.codec import U8, Bounded
from runtime.encoding.types import AccountId, Balance, Hash
from runtime.frame.pallet import DispatchError, event
from runtime.pallets.staking.stakers import PublicKey


@event
class ProviderRegistered:
    """A candidate published the key to which inputs are sealed."""

    provider: AccountId
    seal_key: PublicKey
    endpoint: Annotated[bytes, Bounded(ENDPOINT_BYTES_MAX)]


@event
class ProviderUnregistered:
    """A stash stopped being a provider."""

    provider: AccountId


@event
class DeviceRegistered:
    """A device joined the market."""

    device: DeviceId
    owner: AccountId
    kind: DeviceClass
    uuid_hash: Hash
    bond: Balance


@event
class DeviceUnregistered:
    """A device left the market, and its bond came back."""

    device: DeviceId
    owner: AccountId


@event
class DeviceBonded:
    """A device's bond grew by `amount`."""

    device: DeviceId
    amount: Balance


@event
class DeviceQueueSet:
    """The owner set how many units a device takes while it works on one."""

    device: DeviceId
    queue: U8


@event
class DeviceAssigned:
    """A device was drawn for a unit. It works on the unit after those that it was drawn for earlier."""

    device: DeviceId
    unit: UnitId


@event
class DevicePaused:
    """A device was paused and gets no work until it resumes. `unit` is the unit that it failed, if any."""

    device: DeviceId
    unit: UnitId | None


@event
class DeviceResumed:
    """A device takes work again."""

    device: DeviceId


class NotProvider(DispatchError):
    """The signer is no bonded candidate that registered as provider."""


class NotOwner(DispatchError):
    """The device belongs to another provider."""


class UnknownDevice(DispatchError):
    """There is no such device."""


class DeviceKnown(DispatchError):
    """This hardware is already registered."""


class DeviceBusy(DispatchError):
    """The device has work, collateral, offers or units to be recalled, or the provider still has devices."""


class TooManyDevices(DispatchError):
    """The provider has the maximum number of devices."""


class DeviceBondTooSmall(DispatchError):
    """The bond is below the minimum of the device's class."""


class UnsafeSealKey(DispatchError):
    """The seal key is unsafe: any account could open a blob that is sealed to it."""


class QueueTooLong(DispatchError):
    """The queue is longer than a device may have."""
