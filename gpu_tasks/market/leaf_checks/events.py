"""The events and errors of the pallet LeafChecks."""

from gpu_tasks.market.ids import UnitId
from gpu_tasks.market.leaf_checks.checks import CheckOutcome, LeafDoubt
from runtime.encoding.codec import U8
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.pallet import DispatchError, event


@event
class LeavesDrawn:
    """The leaves of a batch were drawn. An answerer must show them until block `show_until`."""

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
    """An auditor was drawn. It holds its seat and must compute the drawn leaves until block `check_until`."""

    unit: UnitId
    auditor: AccountId
    held: Balance
    check_until: BlockNumber


@event
class AuditorSilent:
    """An auditor was silent in its window."""

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
    """The auditor or the customer disputed a leaf. The courts will decide."""

    unit: UnitId
    case: Hash
    doubt: LeafDoubt


@event
class LeafCheckEnded:
    """A check ended. `earner` was paid for its audit."""

    unit: UnitId
    outcome: CheckOutcome
    earner: AccountId | None


class UnknownCheck(DispatchError):
    """There is no such check, or it is over."""


class NotAnswerer(DispatchError):
    """The signer did not answer with the checked result."""


class NotAuditor(DispatchError):
    """The signer does not audit this batch now."""


class NotBatchCustomer(DispatchError):
    """The signer is not the customer of the batch."""


class CheckWindowClosed(DispatchError):
    """The window for this call is not open."""


class WrongLeaves(DispatchError):
    """These are not the drawn leaves, or they belong to another result."""


class NothingDoubted(DispatchError):
    """The leaf was not drawn, or the found claim equals the shown one."""
