"""What TrainingMarket tells the world, and why a call of it can fail."""

from gpu_tasks.market.ids import DeviceId, TaskId
from gpu_tasks.market.training.bids import BidOffer
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Acceptance, JudgedFor, Milestone, TaskResult
from gpu_tasks.traces.trace import TraceFraudProof
from runtime.encoding.codec import U8
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.pallet import DispatchError, event


@event
class TaskSubmitted:
    """A task goes to auction; `locked` is what its customer holds for it."""

    task: TaskId
    customer: AccountId
    workload: Hash
    price_max: Balance
    slots: U8
    locked: Balance


@event
class BidCommitted:
    """A provider has committed to a bid for a device, which is drawn for nothing else meanwhile."""

    task: TaskId
    provider: AccountId
    device: DeviceId


@event
class BidsClosed:
    """No more bids; they are opened up to a block."""

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
    """A slot has a provider, at this price."""

    task: TaskId
    place: U8
    provider: AccountId
    device: DeviceId
    price: Balance
    start_until: BlockNumber


@event
class StandbyNamed:
    """Who takes over if a winner does not start or dies, at this price for the whole."""

    task: TaskId
    provider: AccountId
    device: DeviceId
    price: Balance


@event
class StandbyReleased:
    """The runner-up is bound no more; it was paid for having been."""

    task: TaskId
    provider: AccountId


@event
class BidEnded:
    """A bid that did not win holds nothing any more; `burned` of its bond, if it was not opened."""

    task: TaskId
    provider: AccountId
    device: DeviceId
    burned: Balance


@event
class SlotStarted:
    """A provider works."""

    task: TaskId
    place: U8
    provider: AccountId


@event
class TaskRunning:
    """All have started: the promised blocks count from here."""

    task: TaskId


@event
class MilestoneReported:
    """A provider states a milestone."""

    task: TaskId
    place: U8
    milestone: Milestone


@event
class MilestoneCounted:
    """Somebody beside the provider holds the checkpoint: the milestone counts."""

    task: TaskId
    number: U8
    holder: AccountId


@event
class ResultStated:
    """A provider is done."""

    task: TaskId
    place: U8
    result: TaskResult


@event
class ResultAccepted:
    """The customer took the result, or said nothing; it is paid once it is known that it is not audited."""

    task: TaskId
    how: Acceptance


@event
class StandbyAsked:
    """Who worked is gone: the runner-up may take over up to a block."""

    task: TaskId
    provider: AccountId
    until: BlockNumber


@event
class TaskReopened:
    """What is left of a task goes to auction again, from its newest checkpoint."""

    task: TaskId
    auction: U8
    price_max: Balance
    milestones: U8


@event
class SegmentsDrawn:
    """The providers have to show states of their traces up to a block."""

    task: TaskId
    why: JudgedFor
    show_until: BlockNumber


@event
class StatesShown:
    """A provider has shown the states that were drawn."""

    task: TaskId
    place: U8


@event
class FraudClaimed:
    """Somebody has committed to a fraud proof."""

    task: TaskId
    challenger: AccountId
    bond: Balance


@event
class FraudNotShown:
    """Who committed to a fraud proof has not opened it in time."""

    task: TaskId
    challenger: AccountId
    burned: Balance


@event
class FraudShown:
    """A fraud proof was opened: judges compute this segment of a slot's trace."""

    task: TaskId
    place: U8
    challenger: AccountId
    proof: TraceFraudProof


@event
class FraudProven:
    """A fraud proof was right; it is paid out of the collateral of who lied."""

    task: TaskId
    place: U8
    challenger: AccountId
    reward: Balance


@event
class TaskJudged:
    """The courts have the task: a case for each slot."""

    task: TaskId
    why: JudgedFor


@event
class TaskAmended:
    """The customer gave more blocks, or offered a higher price."""

    task: TaskId
    price_max: Balance
    more_blocks: BlockNumber


@event
class CloseOffered:
    """The customer offers another end: for each slot so much pay, and so much of the collateral back."""

    task: TaskId
    pay: Balance
    back: Balance


@event
class SlotSettled:
    """A slot has ended so: `earned` of the escrow, before the fee; `lost` of the collateral."""

    task: TaskId
    place: U8
    provider: AccountId
    outcome: TaskOutcome
    earned: Balance
    lost: Balance


@event
class TaskEnded:
    """Nothing is held for the task any more; its record stays for a while."""

    task: TaskId
    outcome: TaskOutcome
    auctions: U8


class UnknownTask(DispatchError):
    """There is no such task, or it has ended."""


class UnsoundOrder(DispatchError):
    """The task's numbers do not go together."""


class StaleOrder(DispatchError):
    """The block since which keys must be there is not final, or too long ago."""


class TooManyTasks(DispatchError):
    """As many tasks are open as may be."""


class NotTaskCustomer(DispatchError):
    """The task is another customer's."""


class WrongTaskState(DispatchError):
    """The task is not at the point at which this may be done, or its window is over."""


class NotEligible(DispatchError):
    """The device may not bid: its class, its owner, its owner's key, or it is paused or busy."""


class TooManyBids(DispatchError):
    """The auction has as many bids as it may have."""


class DeviceHasBid(DispatchError):
    """The device is bid for this task already."""


class NoSuchBid(DispatchError):
    """The signer has made no such bid in this auction, or opened it already."""


class WrongBidOpening(DispatchError):
    """This is not what was committed to."""


class CollateralTooLow(DispatchError):
    """Less than the task asks for, or less than the bond."""


class NotSlotOwner(DispatchError):
    """The signer does not have this slot of the task."""


class DoneAlready(DispatchError):
    """This was done already."""


class WrongMilestone(DispatchError):
    """It is not the next milestone, or it is the last one, which is the result."""


class NothingToConfirm(DispatchError):
    """Not all providers have stated this milestone, or it counts already."""


class MayNotConfirm(DispatchError):
    """Only the customer or the runner-up says that it holds a checkpoint."""


class NotShown(DispatchError):
    """These are not the states that were drawn, or they are not in the trace."""


class NoSuchSegment(DispatchError):
    """The run has no trace, or who is disputed did not compute this segment."""


class TooManyClaims(DispatchError):
    """As many fraud proofs were committed to as a task may have."""


class NoSuchClaim(DispatchError):
    """The signer has committed to no fraud proof of this task, or in this very block."""


class ProvesNothing(DispatchError):
    """This is not what was committed to, or it says nothing of the slot's trace."""


class NoCloseOffer(DispatchError):
    """The customer offers no such end."""


class NotDueYet(DispatchError):
    """Time is paid once it has passed; a lease ends when its time is up."""


class UnsoundAmendment(DispatchError):
    """The price is no higher, the blocks are none or too many, or bids are there already."""
