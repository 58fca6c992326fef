"""What LeafChecks tells the world, and why a call of it can fail."""

from gpu_tasks.market.ids import UnitId
from gpu_tasks.market.leaf_checks.checks import CheckOutcome, LeafDoubt
from runtime.encoding.codec import U8
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.pallet import DispatchError, event


@event
class LeavesDrawn:
    """It is known which leaves of a batch are looked at; who answered shows them up to a block."""

    unit: UnitId
    leaves: U8
    seed: Hash
    show_until: BlockNumber


@event
class LeavesShown:
    """The drawn leaves were shown."""

    unit: UnitId
    provider: AccountId
    leaves: U8


@event
class AuditorDrawn:
    """Who computes the drawn leaves, up to a block; it holds its seat."""

    unit: UnitId
    auditor: AccountId
    held: Balance
    check_until: BlockNumber


@event
class AuditorSilent:
    """An auditor said nothing in time."""

    unit: UnitId
    auditor: AccountId


@event
class LeavesPassed:
    """The auditor found the drawn leaves right."""

    unit: UnitId
    auditor: AccountId
    proof: Hash


@event
class LeafDoubted:
    """The auditor, or the customer, calls a leaf wrong: the courts find out."""

    unit: UnitId
    case: Hash
    doubt: LeafDoubt


@event
class LeafCheckEnded:
    """A check is over; `earner` was paid for having looked."""

    unit: UnitId
    outcome: CheckOutcome
    earner: AccountId | None


class UnknownCheck(DispatchError):
    """There is no such check, or it is over."""


class NotAnswerer(DispatchError):
    """The signer is none of those who answered with the result that is checked."""


class NotAuditor(DispatchError):
    """The signer does not audit this batch now."""


class NotBatchCustomer(DispatchError):
    """The signer is not the customer of the batch."""


class CheckWindowClosed(DispatchError):
    """It is not the time for this."""


class WrongLeaves(DispatchError):
    """These are not the leaves that were drawn, or not of the result that is checked."""


class NothingDoubted(DispatchError):
    """The leaf was not drawn, or what was found is what was shown."""
