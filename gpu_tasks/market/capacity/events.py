"""The events and errors of the pallet Capacity."""

from gpu_tasks.market.capacity.proofs import WorkShape
from gpu_tasks.market.ids import DeviceId
from runtime.encoding.codec import U32, U64
from runtime.encoding.types import AccountId, Balance, Hash
from runtime.frame.pallet import DispatchError, event


@event
class RollCalled:
    """A roll call began. Every enrolled device derives its own seed from this one."""

    number: U32
    seed: Hash


@event
class RowsDrawn:
    """The beacon drew the rows that each committed device shows."""

    number: U32
    seed: Hash


@event
class InspectorsDrawn:
    """The beacon drew the inspectors that compute rows again."""

    number: U32
    seed: Hash


@event
class DeviceEnrolled:
    """A device was enrolled and answers roll calls from the next one on."""

    device: DeviceId
    shape: WorkShape


@event
class DeviceUnenrolled:
    """A device left the roll calls, and the rest of its bond came back."""

    device: DeviceId


@event
class CapacityCommitted:
    """A device committed to its rows. `rate` counts if they are right, in 10^9 operations a slot."""

    device: DeviceId
    number: U32
    rate: U64


@event
class RowsOpened:
    """A device showed the drawn rows, under its root."""

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
    """A device lost its roll-call bond, because it was silent or wrong at a roll call."""

    device: DeviceId
    number: U32
    amount: Balance


class UnsoundWork(DispatchError):
    """The shape of the work is out of bounds."""


class NotEnrolled(DispatchError):
    """The device is not enrolled, or was enrolled after this roll call began."""


class AlreadyEnrolled(DispatchError):
    """The device is already enrolled."""


class RollCallOpen(DispatchError):
    """A roll call that includes the device is going on, so the device cannot withdraw."""


class WrongTime(DispatchError):
    """The roll call does not accept this call at this height."""


class CommittedAlready(DispatchError):
    """The device has already committed at this roll call."""


class NothingCommitted(DispatchError):
    """The device's proof is missing or in another state: not committed, already shown, or not shown yet."""


class WrongRows(DispatchError):
    """The shown rows are not the drawn ones under the committed root."""


class NotInspector(DispatchError):
    """The signer was not drawn to inspect this device's rows, or has already objected."""
