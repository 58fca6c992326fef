"""A budget, its account, and its delegates with their caps. Pure rules over them.

Invariants: nobody has the key of a budget's account. A delegate's spent grains never exceed the caps that it had when
it spent them.
"""

from dataclasses import replace
from typing import Annotated

from gpu_tasks.market.budgets.events import DelegateExpired, OverDayCap, OverTotalCap
from gpu_tasks.market.ids import ServiceId
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, U32, Bounded, codec, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.holds import HoldReason
from runtime.frame.pallet import ensure

BUDGET_DEPOSIT = HoldReason(
    "BudgetDeposit", "The deposits for a budget's record and its delegates. One for each budget.", is_deposit=True
)
BUDGETS_PER_OWNER_MAX = 16
DELEGATES_MAX = 64
SERVICES_MAX = 16
DAY_BLOCKS = 21_600
"""A day of four-second blocks. Days begin at multiples of it."""
REVOKED_BLOCKS = 30
"""Blocks in which providers may claim for a revoked delegate's sessions: two minutes, enough for the last voucher."""
_ACCOUNT_DOMAIN = b"ogpu/budget-account"


@struct
class Caps:
    """The limits of a delegate, in grains."""

    unit: Balance
    """The most for the greatest price of one unit, or for the deposit of one session."""
    day: Balance
    total: Balance
    services: Annotated[tuple[ServiceId, ...], Bounded(SERVICES_MAX)]
    """The services of its units and sessions. Empty for all services."""
    expires_at: BlockNumber
    """The first block in which it spends nothing more."""


@struct
class Budget:
    """The record of a budget."""

    owner: AccountId
    account: AccountId
    """The account with the money. It is the customer of the delegates' units and sessions."""
    deposits: Balance
    """The grains held from the owner for this record and for those of its delegates."""
    delegates: U8 = 0
    """The number of its delegates."""


@struct
class Delegate:
    """A key that spends from a budget."""

    caps: Caps
    record_deposit: Balance
    """Its part of the budget's deposits."""
    spent: Balance = 0
    """Grains spent since it became a delegate. Refunds do not lower it."""
    day: U32 = 0
    """The day of its newest purchase."""
    spent_in_day: Balance = 0
    """Grains spent in that day."""


@struct
class _BudgetBody:
    parent: Hash
    owner: AccountId
    number: U32


_BODY = codec(_BudgetBody)


def budget_id_of(genesis: bytes, parent: bytes, owner: bytes, number: int) -> bytes:
    """Return the id of an owner's budget, counted from 0, that is created on the block `parent`."""
    return blake2_256(domain(b"budget", genesis, _BODY.encode(_BudgetBody(parent, owner, number))))


def budget_account(budget_id: bytes) -> bytes:
    """Return the account of a budget. As a hash it has no key."""
    return blake2_256(_ACCOUNT_DOMAIN + budget_id)


def spent_today(delegate: Delegate, height: int) -> int:
    """Return the grains that a delegate has spent in the day of a block."""
    return delegate.spent_in_day if delegate.day == height // DAY_BLOCKS else 0


def ensure_unexpired(delegate: Delegate, height: int) -> None:
    """Raise DelegateExpired from the block of the expiry on."""
    ensure(height < delegate.caps.expires_at, DelegateExpired)


def spends(delegate: Delegate, amount: int, height: int) -> Delegate:
    """Return a delegate that spends an amount. Raise OverDayCap or OverTotalCap if too little is left."""
    in_day, spent = spent_today(delegate, height) + amount, delegate.spent + amount
    ensure(in_day <= delegate.caps.day, OverDayCap)
    ensure(spent <= delegate.caps.total, OverTotalCap)
    return replace(delegate, spent=spent, day=height // DAY_BLOCKS, spent_in_day=in_day)
