"""What TrainingMarket tells of replicas, and why a call of one can fail."""

from gpu_tasks.market.ids import DeviceId, TaskId
from runtime.encoding.codec import U8
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.pallet import DispatchError, event


@event
class ReplicasSought:
    """Devices may be offered as replicas, or as jurors, up to a block, at the price of the award."""

    task: TaskId
    price: Balance
    wanted: U8
    until: BlockNumber


@event
class Volunteered:
    """A device is offered as a replica; it is drawn for nothing else meanwhile."""

    task: TaskId
    provider: AccountId
    device: DeviceId


@event
class ResultBound:
    """A replica has bound itself to a result."""

    task: TaskId
    place: U8
    commitment: Hash


@event
class ReplicasCompared:
    """So many of the replicas from a place on agree on a root, or None: no more than half agree."""

    task: TaskId
    first: U8
    places: U8
    votes: U8
    root: Hash | None


class WrongResultOpening(DispatchError):
    """This is not what the replica is bound to."""
