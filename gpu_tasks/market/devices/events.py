"""What Devices tells the world: its events, and why a call of it can fail."""

from typing import Annotated

from gpu_tasks.market.devices.records import ENDPOINT_BYTES_MAX, DeviceClass
from gpu_tasks.market.ids import DeviceId, UnitId
from runtime.encoding.codec import U8, Bounded
from runtime.encoding.types import AccountId, Balance, Hash
from runtime.frame.pallet import DispatchError, event
from runtime.pallets.staking.stakers import PublicKey


@event
class ProviderRegistered:
    """A candidate can be sent sealed inputs."""

    provider: AccountId
    seal_key: PublicKey
    endpoint: Annotated[bytes, Bounded(ENDPOINT_BYTES_MAX)]


@event
class ProviderUnregistered:
    """A stash is no provider any more."""

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
    """A device left the market; its bond came back."""

    device: DeviceId
    owner: AccountId


@event
class DeviceBonded:
    """A device's bond grew by `amount`."""

    device: DeviceId
    amount: Balance


@event
class DeviceQueueSet:
    """A device takes so many units while it works on one."""

    device: DeviceId
    queue: U8


@event
class DeviceAssigned:
    """A device was drawn for a unit: it works on it, once it is done with those that it was drawn for before."""

    device: DeviceId
    unit: UnitId


@event
class DevicePaused:
    """A device gets no work until it resumes; `unit` is the one it failed, if it did."""

    device: DeviceId
    unit: UnitId | None


@event
class DeviceResumed:
    """A device takes work again."""

    device: DeviceId


class NotProvider(DispatchError):
    """Only a bonded candidate that registered as provider may do this."""


class NotOwner(DispatchError):
    """The device belongs to another provider."""


class UnknownDevice(DispatchError):
    """There is no such device."""


class DeviceKnown(DispatchError):
    """This hardware is registered already."""


class DeviceBusy(DispatchError):
    """The device works on a unit, secures one that is not settled, or still offers a service."""


class TooManyDevices(DispatchError):
    """The provider has as many devices as it may have."""


class DeviceBondTooSmall(DispatchError):
    """The bond is below the minimum of the device's class."""


class Expelled(DispatchError):
    """A court has ended the registration, and what it was ended for still counts."""


class NotGone(DispatchError):
    """The provider is a candidate, or has stake of its own: nobody else ends its registration."""


class UnsafeSealKey(DispatchError):
    """Anybody could open what is sealed to this key."""


class BadEndpoint(DispatchError):
    """The endpoint is no http or https address in printable ASCII."""


class QueueTooLong(DispatchError):
    """A device takes fewer units behind the one that it works on."""
