"""The events and errors of the pallet Capacity."""

from gpu_tasks.market.ids import DeviceId
from runtime.encoding.codec import U32, U64
from runtime.encoding.types import Hash
from runtime.frame.pallet import DispatchError, event


@event
class RollCalled:
    """A roll call began. Every device derives its own seed from this one."""

    number: U32
    seed: Hash


@event
class CapacityStated:
    """A device stated its proof. `rate` counts unless the claim ends with a conviction, in 10^9 operations a slot."""

    device: DeviceId
    number: U32
    rate: U64
    claim: Hash


@event
class CapacityRefuted:
    """A proof does not count: validators convicted it, or could not decide."""

    device: DeviceId
    number: U32


class UnsoundWork(DispatchError):
    """The shape of the work is out of bounds."""


class NotCalled(DispatchError):
    """No roll call accepts proofs at this height."""


class ProvenAlready(DispatchError):
    """The device has already stated a proof at this roll call."""
