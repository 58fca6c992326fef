"""The events and errors of TrainingMarket."""

from gpu_tasks.market.claims.disputes import DisputeQuestion
from gpu_tasks.market.ids import DeviceId, TaskId
from gpu_tasks.market.training.bids import BidOffer
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Milestone, TaskResult
from runtime.encoding.codec import U8
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.pallet import DispatchError, event


@event
class TaskSubmitted:
    """A task was put to auction. `locked` is the customer's held money for it."""

    task: TaskId
    customer: AccountId
    workload: Hash
    price_max: Balance
    slots: U8
    locked: Balance


@event
class BidCommitted:
    """A provider committed to a bid for a device, which is drawn for nothing else meanwhile."""

    task: TaskId
    provider: AccountId
    device: DeviceId


@event
class BidsClosed:
    """Bidding closed. Bids may be opened until `reveal_until`."""

    task: TaskId
    bids: U8
    reveal_until: BlockNumber


@event
class BidRevealed:
    """A bid was opened, and its collateral locked."""

    task: TaskId
    provider: AccountId
    device: DeviceId
    offer: BidOffer


@event
class TaskAwarded:
    """A provider won a slot, at this price."""

    task: TaskId
    place: U8
    provider: AccountId
    device: DeviceId
    price: Balance
    start_until: BlockNumber


@event
class StandbyNamed:
    """A runner-up was named. It takes over if a winner does not start or dies, at this price for the whole."""

    task: TaskId
    provider: AccountId
    device: DeviceId
    price: Balance


@event
class StandbyReleased:
    """The runner-up was released, and paid for its time on standby."""

    task: TaskId
    provider: AccountId


@event
class BidEnded:
    """A bid that did not win released its holds. `burned` of its bond was lost if it was not opened."""

    task: TaskId
    provider: AccountId
    device: DeviceId
    burned: Balance


@event
class SlotStarted:
    """A provider started its slot."""

    task: TaskId
    place: U8
    provider: AccountId


@event
class TaskRunning:
    """All providers have started. The promised blocks count from here."""

    task: TaskId


@event
class MilestoneReported:
    """A provider stated a milestone."""

    task: TaskId
    place: U8
    milestone: Milestone


@event
class MilestoneCounted:
    """A milestone was counted: another party than the provider holds the checkpoint."""

    task: TaskId
    number: U8
    holder: AccountId


@event
class ResultStated:
    """A provider stated its result."""

    task: TaskId
    place: U8
    result: TaskResult


@event
class StandbyAsked:
    """The provider has left or died. The runner-up may take over until block `until`."""

    task: TaskId
    provider: AccountId
    until: BlockNumber


@event
class TaskReopened:
    """The rest of a task was put to auction again, from its newest checkpoint."""

    task: TaskId
    auction: U8
    price_max: Balance
    milestones: U8


@event
class ResultsClaimed:
    """The providers claim their pay for results: so many claims are open, each under the case of its slot."""

    task: TaskId
    claims: U8


@event
class TaskDisputed:
    """Voters decide about different results, or about a missing input."""

    task: TaskId
    dispute: Hash
    question: DisputeQuestion


@event
class SlotSettled:
    """A slot ended with this outcome: `earned` of the escrow, before the fee, and `lost` of the collateral."""

    task: TaskId
    place: U8
    provider: AccountId
    outcome: TaskOutcome
    earned: Balance
    lost: Balance


@event
class TaskEnded:
    """A task ended and holds only the deposit for its record, which stays for a while."""

    task: TaskId
    outcome: TaskOutcome
    auctions: U8


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


class UnknownTask(DispatchError):
    """There is no such task, or it has ended."""


class UnsoundOrder(DispatchError):
    """The task's numbers contradict each other or a limit."""


class StaleOrder(DispatchError):
    """`sealed_at` is not final, or too long ago."""


class TooManyTasks(DispatchError):
    """The maximum number of tasks is open."""


class NotTaskCustomer(DispatchError):
    """The task belongs to another customer."""


class WrongTaskState(DispatchError):
    """The task's state does not allow this call, or its window is over."""


class NotEligible(DispatchError):
    """The device may not bid, because of its class, its owner or its owner's key, or because it is paused or busy."""


class TooManyBids(DispatchError):
    """The auction has the maximum number of bids."""


class DeviceHasBid(DispatchError):
    """The device already has a bid for this task."""


class NoSuchBid(DispatchError):
    """The signer has no such bid in this auction, or has already opened it."""


class WrongBidOpening(DispatchError):
    """The offer and the salt do not open the commitment."""


class CollateralTooLow(DispatchError):
    """The collateral is less than the task requires, or less than the bond."""


class NotSlotOwner(DispatchError):
    """The signer does not have this slot of the task."""


class DoneAlready(DispatchError):
    """This has already been done."""


class WrongMilestone(DispatchError):
    """This is not the next milestone, or it is the last one, which is the result."""


class NothingToConfirm(DispatchError):
    """Not all providers have stated this milestone, or it already counts."""


class MayNotConfirm(DispatchError):
    """Only the customer or the runner-up may confirm that it holds a checkpoint."""


class NotDueYet(DispatchError):
    """The time is not over yet: an interval is paid after it has passed, and a lease ends when its time is up."""


class WrongResultOpening(DispatchError):
    """The result and the salt do not open the replica's commitment."""
