"""The events and errors of the pallet Budgets."""

from runtime.encoding.types import AccountId, Balance, Hash
from runtime.frame.pallet import DispatchError, event


@event
class BudgetCreated:
    """An owner created a budget and deposited money in its account."""

    budget: Hash
    owner: AccountId
    account: AccountId
    deposit: Balance


@event
class DelegateGranted:
    """An owner named a delegate, or replaced its caps."""

    budget: Hash
    delegate: AccountId


@event
class DelegateRevoked:
    """A delegate spends nothing more, and its sessions are closing."""

    budget: Hash
    delegate: AccountId


@event
class BudgetSpent:
    """A delegate bought units or a session: the amount counts towards its caps."""

    budget: Hash
    delegate: AccountId
    amount: Balance


@event
class BudgetClosed:
    """A budget is gone, and its money returned to the owner."""

    budget: Hash
    owner: AccountId
    amount: Balance


class UnknownBudget(DispatchError):
    """There is no such budget, or it is closed."""


class NotBudgetOwner(DispatchError):
    """The account does not own the budget."""


class TooManyBudgets(DispatchError):
    """The owner has 16 budgets already."""


class TooManyDelegates(DispatchError):
    """The budget has 64 delegates already."""


class UnknownDelegate(DispatchError):
    """The account is no delegate of the budget."""


class DelegateExpired(DispatchError):
    """The delegate's time is over."""


class NotAllowed(DispatchError):
    """A delegate may only post units, and open sessions whose vouchers it signs itself."""


class ServiceNotAllowed(DispatchError):
    """The delegate may not buy from this service."""


class OverUnitCap(DispatchError):
    """The price of a unit, or the deposit of the session, exceeds the delegate's cap for one."""


class OverDayCap(DispatchError):
    """The purchase exceeds the rest of the delegate's cap for a day."""


class OverTotalCap(DispatchError):
    """The purchase exceeds the rest of the delegate's cap in all."""


class BudgetHasDelegates(DispatchError):
    """The budget still has delegates. Revoke them first."""


class BudgetInUse(DispatchError):
    """Units or sessions still hold money of the budget. Wait until they end."""
