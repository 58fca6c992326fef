"""The events and errors of replicas in TrainingMarket."""

from gpu_tasks.market.ids import DeviceId, TaskId
from runtime.encoding.codec import U8
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.pallet import DispatchError, event


@event
class ReplicasSought:
    """Replicas are sought: devices may be offered until block `until`, at the price of the award."""

    task: TaskId
    price: Balance
    wanted: U8
    until: BlockNumber


@event
class Volunteered:
    """A provider offered a device as a replica. It is drawn for nothing else meanwhile."""

    task: TaskId
    provider: AccountId
    device: DeviceId


@event
class ResultBound:
    """A replica committed to a result."""

    task: TaskId
    place: U8
    commitment: Hash


@event
class ReplicasCompared:
    """The replicas were compared: `votes` of all places agree on a root, which is None without a majority."""

    task: TaskId
    places: U8
    votes: U8
    root: Hash | None


class WrongResultOpening(DispatchError):
    """The result and the salt do not open the replica's commitment."""
