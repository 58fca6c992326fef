"""What Capacity tells the world, and why a call of it can fail."""

from gpu_tasks.market.capacity.proofs import WorkShape
from gpu_tasks.market.ids import DeviceId
from runtime.encoding.codec import U32, U64
from runtime.encoding.types import AccountId, Balance, Hash
from runtime.frame.pallet import DispatchError, event


@event
class RollCalled:
    """All who are enrolled compute from here, each with its own seed of this one."""

    number: U32
    seed: Hash


@event
class RowsDrawn:
    """Who committed opens the rows that this seed draws."""

    number: U32
    seed: Hash


@event
class InspectorsDrawn:
    """Rows are computed again by whom this seed draws."""

    number: U32
    seed: Hash


@event
class DeviceEnrolled:
    """A device answers roll calls from the next one on."""

    device: DeviceId
    shape: WorkShape


@event
class DeviceUnenrolled:
    """A device answers no roll calls any more; what is left of its bond came back."""

    device: DeviceId


@event
class CapacityCommitted:
    """A device committed to its rows; `rate` stands if they are right."""

    device: DeviceId
    number: U32
    rate: U64


@event
class RowsOpened:
    """The rows drawn are under the root."""

    device: DeviceId
    number: U32


@event
class RowsObjected:
    """An inspector found a row wrong."""

    device: DeviceId
    number: U32
    inspector: AccountId


@event
class RollCallBondLost:
    """A device was silent or wrong at a roll call."""

    device: DeviceId
    number: U32
    amount: Balance


class UnsoundWork(DispatchError):
    """The shape of the work is out of bounds."""


class NotEnrolled(DispatchError):
    """The device answers no roll calls, or was enrolled after this one began."""


class AlreadyEnrolled(DispatchError):
    """The device answers roll calls already."""


class RollCallOpen(DispatchError):
    """While a roll call goes on, who was called stays."""


class WrongTime(DispatchError):
    """The roll call does not take this now."""


class CommittedAlready(DispatchError):
    """The device has committed at this roll call."""


class NothingCommitted(DispatchError):
    """The device has not committed at this roll call, or has opened already, or has not opened yet."""


class WrongRows(DispatchError):
    """What is shown are not the rows drawn, under the root that was committed."""


class NotInspector(DispatchError):
    """The signer was not drawn to look at this device's rows, or has objected already."""
