"""The pallet Budgets: money of an owner, which named keys spend for units and sessions within their caps.

The money lies in an account without a key. A delegate signs `spend` with a call inside, and the pallet makes that call
as the account. So the account is the customer, and refunds return to it.

Invariants: only the owner takes money out of a budget, and only into its own account. A budget that ends leaves no
money, no delegate and no deposit behind.
"""

from dataclasses import replace

from gpu_tasks.market.budgets import events as ev
from gpu_tasks.market.budgets.purchases import purchase_of
from gpu_tasks.market.budgets.records import (
    BUDGET_DEPOSIT,
    BUDGETS_PER_OWNER_MAX,
    DELEGATES_MAX,
    REVOKED_BLOCKS,
    Budget,
    Caps,
    Delegate,
    budget_account,
    budget_id_of,
    ensure_unexpired,
    spends,
)
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions import life
from gpu_tasks.market.sessions.records import SESSIONS_PER_CUSTOMER_MAX
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.codec import U32
from runtime.encoding.types import GRAINS_PER_OGPU, AccountId, Balance, CompactBalance, Hash, Weight
from runtime.frame.measured import times
from runtime.frame.pallet import (
    Call,
    Hold,
    Pallet,
    Parameter,
    PostDispatch,
    Signed,
    StorageDoubleMap,
    StorageMap,
    call,
    ensure,
    known,
)
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.system import System

SPEND_WEIGHT = WEIGHTS["Budgets.spend"]
"""The weight of a purchase besides the call inside."""


def _revoke_weight(sessions: int) -> Weight:
    return WEIGHTS["Budgets.revoke"] + times(sessions, WEIGHTS["Budgets.revoke session"])


class Budgets(Pallet, index=23):
    """Budgets and their delegates."""

    system: System
    balances: Balances
    lock: TrustLock
    devices: Devices
    inference: InferenceMarket
    sessions: Sessions

    budget_deposit: Parameter[Balance] = Parameter(
        GRAINS_PER_OGPU // 10, unit="grains", least=GRAINS_PER_OGPU // 100, greatest=100 * GRAINS_PER_OGPU,
        doc="Deposit for the record of a budget, or of a delegate, until the record is dropped. Every node keeps it.",
    )  # fmt: skip

    budgets: StorageMap[Hash, Budget | None] = StorageMap(doc="Budgets, until they are closed.")
    delegates: StorageDoubleMap[Hash, AccountId, Delegate | None] = StorageDoubleMap(
        doc="The delegates of a budget, until they are revoked."
    )
    owner_budgets: StorageDoubleMap[AccountId, Hash, bool] = StorageDoubleMap(
        default=False, doc="The budgets of an owner."
    )
    key_budgets: StorageDoubleMap[AccountId, Hash, bool] = StorageDoubleMap(
        default=False, doc="The budgets that name a key as delegate."
    )
    creation_counts: StorageMap[AccountId, U32] = StorageMap(
        default=0, doc="The number of budgets that an owner has created, ever."
    )

    events = (ev.BudgetCreated, ev.DelegateGranted, ev.DelegateRevoked, ev.BudgetSpent, ev.BudgetClosed)
    errors = (
        ev.UnknownBudget, ev.NotBudgetOwner, ev.TooManyBudgets, ev.TooManyDelegates, ev.UnknownDelegate,
        ev.DelegateExpired, ev.NotAllowed, ev.ServiceNotAllowed, ev.OverUnitCap, ev.OverDayCap, ev.OverTotalCap,
        ev.BudgetHasDelegates, ev.BudgetInUse,
    )  # fmt: skip
    hold_reasons = (BUDGET_DEPOSIT,)

    # ------------------------------------------------------------------------------------------------------- the owner

    @call(index=0, weight=WEIGHTS["Budgets.create"])
    def create(self, origin: Signed, deposit: CompactBalance) -> None:
        """Create a budget and move `deposit` grains of yours into its account. A record's deposit is held as well."""
        owner = origin.account
        ensure(sum(1 for _ in self.owner_budgets.under(owner)) < BUDGETS_PER_OWNER_MAX, ev.TooManyBudgets)
        number = self.creation_counts[owner]
        # The parent makes a call for a budget of an abandoned branch fail instead of naming another budget.
        budget_id = budget_id_of(self.system.block_hash[0], self.system.parent_hash.get(), owner, number)
        budget = Budget(owner, budget_account(budget_id), self.budget_deposit)
        self.lock.lock(owner, Hold(BUDGET_DEPOSIT, budget_id), budget.deposits)
        # A refund to an empty account would burn if the account did not live without a balance.
        self.balances.sustain(budget.account, +1)
        self.balances.transfer(owner, budget.account, deposit)
        self.devices.name_principal(budget.account, owner)
        self.creation_counts[owner] = number + 1
        self.owner_budgets[owner, budget_id] = True
        self.budgets[budget_id] = budget
        self.emit(ev.BudgetCreated(budget_id, owner, budget.account, deposit))

    @call(index=1, weight=WEIGHTS["Budgets.grant"])
    def grant(self, origin: Signed, budget: Hash, delegate: AccountId, caps: Caps) -> None:
        """Let a key spend from your budget within caps, or replace its caps. Its spent amounts stay.

        A deposit is held for a new delegate until you revoke it.
        """
        record, standing = self._owned(budget, origin), self.delegates[budget, delegate]
        if standing is None:
            ensure(record.delegates < DELEGATES_MAX, ev.TooManyDelegates)
            standing = Delegate(caps, self.budget_deposit)
            self.lock.lock(record.owner, Hold(BUDGET_DEPOSIT, budget), standing.record_deposit)
            deposits = record.deposits + standing.record_deposit
            self.budgets[budget] = replace(record, deposits=deposits, delegates=record.delegates + 1)
            self.key_budgets[delegate, budget] = True
        self.delegates[budget, delegate] = replace(standing, caps=caps)
        self.emit(ev.DelegateGranted(budget, delegate))

    @call(index=2, weight=_revoke_weight(SESSIONS_PER_CUSTOMER_MAX))
    def revoke(self, origin: Signed, budget: Hash, delegate: AccountId) -> PostDispatch:
        """Revoke a delegate, as the owner or as the delegate itself. Its deposit returns to the owner.

        Sessions whose vouchers it signs close. Their providers may claim for 30 blocks. The fee for sessions that the
        call need not read comes back.
        """
        record = self._budget(budget)
        ensure(origin.account in (record.owner, delegate), ev.NotBudgetOwner)
        leaving = known(self.delegates[budget, delegate], ev.UnknownDelegate)
        read_count = life.close_revoked(self.sessions, record.account, delegate, REVOKED_BLOCKS)
        del self.delegates[budget, delegate]
        del self.key_budgets[delegate, budget]
        deposits = record.deposits - leaving.record_deposit
        self.budgets[budget] = replace(record, deposits=deposits, delegates=record.delegates - 1)
        self.lock.unlock(record.owner, Hold(BUDGET_DEPOSIT, budget), leaving.record_deposit)
        self.emit(ev.DelegateRevoked(budget, delegate))
        return PostDispatch(actual_weight=_revoke_weight(read_count))

    @call(index=4, weight=WEIGHTS["Budgets.withdraw"])
    def withdraw(self, origin: Signed, budget: Hash, amount: CompactBalance) -> None:
        """Take free money of your budget back."""
        record = self._owned(budget, origin)
        self.balances.transfer(record.account, record.owner, amount)

    @call(index=5, weight=WEIGHTS["Budgets.close"])
    def close(self, origin: Signed, budget: Hash) -> None:
        """Close your budget once it has no delegates and holds nothing. All its money and the deposit return."""
        record = self._owned(budget, origin)
        ensure(not record.delegates, ev.BudgetHasDelegates)
        ensure(not self.balances.reserved_balance(record.account), ev.BudgetInUse)
        free_grains, hold = self.balances.free_balance(record.account), Hold(BUDGET_DEPOSIT, budget)
        self.balances.transfer(record.account, record.owner, free_grains)
        self.balances.sustain(record.account, -1)
        self.devices.drop_principal(record.account)
        self.lock.unlock(record.owner, hold, record.deposits)
        self.lock.end(hold)
        del self.owner_budgets[record.owner, budget]
        del self.budgets[budget]
        self.emit(ev.BudgetClosed(budget, record.owner, free_grains))

    # ---------------------------------------------------------------------------------------------------- the delegate

    @call(index=3, weight=lambda budget, call: SPEND_WEIGHT + call.weight)  # noqa: ARG005 - the call's arguments
    def spend(self, origin: Signed, budget: Hash, call: Call) -> PostDispatch:
        """Post units or open a session with money of a budget, as its delegate. You pay the fee yourself.

        The call inside is `InferenceMarket.post`, or `Sessions.open` with you as signer. All grains that leave the free
        balance of the budget count towards your caps, except deposits for records.
        """
        record, height = self._budget(budget), self.system.number.get()
        delegate = known(self.delegates[budget, origin.account], ev.UnknownDelegate)
        ensure_unexpired(delegate, height)
        purchase = purchase_of(
            call,
            origin.account,
            unit_deposit=self.inference.unit_deposit,
            session_deposit=self.sessions.session_deposit,
        )
        caps = delegate.caps
        ensure(not caps.services or purchase.service in caps.services, ev.ServiceNotAllowed)
        ensure(all(price <= caps.unit for price in purchase.prices), ev.OverUnitCap)
        free_before = self.balances.free_balance(record.account)
        done = self.dispatch(call, Signed(record.account))
        amount = free_before - self.balances.free_balance(record.account) - purchase.deposits
        # After the purchase, since only the market knows its whole cost. A failing call changes nothing.
        self.delegates[budget, origin.account] = spends(delegate, amount, height)
        self.emit(ev.BudgetSpent(budget, origin.account, amount))
        inner_weight = call.weight if done.actual_weight is None else done.actual_weight
        return PostDispatch(actual_weight=SPEND_WEIGHT + inner_weight)

    def _budget(self, budget_id: bytes) -> Budget:
        return known(self.budgets[budget_id], ev.UnknownBudget)

    def _owned(self, budget_id: bytes, origin: Signed) -> Budget:
        budget = self._budget(budget_id)
        ensure(budget.owner == origin.account, ev.NotBudgetOwner)
        return budget
