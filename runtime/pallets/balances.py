"""The ledger: the grains of each account, and their transfers.

Invariant: all accounts' `free + reserved` add up to `total_issuance`, and with `burned` to the issuance at genesis.
Nothing issues grains afterwards. Only `retire` destroys them. Every reserved grain is held for a case of a reason: an
account's `reserved` is the sum of its `holds`, which are the sums of its `held_cases`. A case pays from its own holds
only.

The maps of locks, named reserves and freezes stay empty, but clients of a Substrate chain look for them.

An account lives while it owns the existential deposit or anything reserved, or another pallet sustains it. A smaller
rest is burned as dust. Reserved grains are held by pallets (bonds, escrow). Frozen grains are merely not spendable.
"""

from collections.abc import Sequence
from enum import IntEnum
from functools import cached_property
from typing import Annotated, Any

from runtime.cryptography.ss58 import account_from_text
from runtime.encoding.codec import U32, Bounded, Fixed, named, struct
from runtime.encoding.types import CAP_GRAINS, AccountId, Balance, CompactBalance, MultiAddress
from runtime.frame.errors import BelowMinimum, FundsUnavailable, NotExpendable, ensure
from runtime.frame.pallet import (
    Constant,
    Hold,
    Pallet,
    Parameter,
    Signed,
    StorageDoubleMap,
    StorageMap,
    StorageValue,
    call,
    event,
)
from runtime.pallets.hold_book import AccountHolds, HoldBook
from runtime.pallets.system import AccountData, AccountInfo, KilledAccount, NewAccount, System
from runtime.pallets.weights import WEIGHTS

# The maps of the SDK's `pallet_balances` besides balances and holds, in its layout. They are always empty.
#
# Wallets, explorers and exchanges read these maps to compute a spendable balance. To them an empty map is an
# answer, and a missing one an error.
LOCKS_MAX = 50

LockIdentifier = Annotated[bytes, Fixed(8)]


@named("pallet_balances::types::Reasons")
class LockReasons(IntEnum):
    """The forbidden uses of locked grains."""

    Fee = 0
    Misc = 1
    All = 2


@struct(path="pallet_balances::types::BalanceLock", params={"Balance": Balance})
class BalanceLock:
    """Grains that may not be spent. There are none."""

    id: LockIdentifier
    amount: Balance
    reasons: LockReasons


@struct(path="pallet_balances::types::ReserveData", params={"ReserveIdentifier": LockIdentifier, "Balance": Balance})
class ReserveData:
    """Grains reserved under a name. There are none."""

    id: LockIdentifier
    amount: Balance


@named("ogpu_runtime::RuntimeFreezeReason")
class RuntimeFreezeReason(IntEnum):
    """The reasons of this pallet to freeze grains. There are none."""


@struct(path="frame_support::traits::tokens::misc::IdAmount", params={"Id": RuntimeFreezeReason, "Balance": Balance})
class FrozenAmount:
    """Grains frozen for a reason. There are none."""

    id: RuntimeFreezeReason
    amount: Balance


AccountLocks = Annotated[tuple[BalanceLock, ...], Bounded(LOCKS_MAX)]
AccountReserves = Annotated[tuple[ReserveData, ...], Bounded(LOCKS_MAX)]
AccountFreezes = Annotated[tuple[FrozenAmount, ...], Bounded(LOCKS_MAX)]


@named("frame_support::traits::tokens::misc::BalanceStatus")
class BalanceStatus(IntEnum):
    """The part of an account that receives."""

    Free = 0
    Reserved = 1


@event(0)
class Endowed:
    """An account was created with a balance."""

    account: AccountId
    free_balance: Balance


@event(1)
class DustLost:
    """The rest of an account was below the existential deposit and was burned."""

    account: AccountId
    amount: Balance


@event(2)
class Transfer:
    """Grains were transferred."""

    from_: AccountId
    to: AccountId
    amount: Balance


@event(4)
class Reserved:
    """Free grains were reserved for a purpose."""

    who: AccountId
    amount: Balance


@event(5)
class Unreserved:
    """Reserved grains became free again."""

    who: AccountId
    amount: Balance


@event(6)
class ReserveRepatriated:
    """Reserved grains were transferred to another account."""

    from_: AccountId
    to: AccountId
    amount: Balance
    destination_status: BalanceStatus


@event(7)
class Deposit:
    """An account received grains, such as a returned fee."""

    who: AccountId
    amount: Balance


@event(8)
class Withdraw:
    """Grains were taken from an account, such as a fee."""

    who: AccountId
    amount: Balance


@event(9)
class Slashed:
    """Reserved grains were burned as a punishment."""

    who: AccountId
    amount: Balance


@event(11)
class Burned:
    """An account's free grains were destroyed."""

    who: AccountId
    amount: Balance


class Balances(Pallet, index=2):
    """The ledger. Other pallets move value through its methods, never by writing accounts."""

    system: System

    total_issuance: StorageValue[Balance] = StorageValue(default=0, doc="The sum of all accounts, in grains.")
    burned: StorageValue[Balance] = StorageValue(default=0, doc="All burned grains.")
    inactive_issuance: StorageValue[Balance] = StorageValue(default=0, doc="Grains excluded from votes: always none.")
    locks: StorageMap[AccountId, AccountLocks] = StorageMap(default=(), doc="Always empty.")
    reserves: StorageMap[AccountId, AccountReserves] = StorageMap(default=(), doc="Always empty.")
    holds: StorageMap[AccountId, AccountHolds] = StorageMap(default=(), doc="Held grains of an account, by reason.")
    freezes: StorageMap[AccountId, AccountFreezes] = StorageMap(default=(), doc="Always empty.")
    held_cases: StorageDoubleMap[AccountId, Hold, Balance] = StorageDoubleMap(
        default=0, doc="Held grains of an account, by case."
    )
    case_totals: StorageMap[Hold, Balance] = StorageMap(default=0, doc="Grains held for a case in all accounts.")

    existential_deposit: Constant[Balance] = Constant(100_000, doc="The least balance of an account.")
    supply_cap: Parameter[Balance] = Parameter(
        CAP_GRAINS, unit="grains", is_frozen=True, doc="The most grains that can ever exist. No origin can create one."
    )
    transfer_tax: Parameter[U32] = Parameter(
        0, unit="ppm", is_frozen=True, doc="The tax on transfers. A transfer always moves its full amount."
    )
    max_locks: Constant[U32] = Constant(LOCKS_MAX, doc="The most locks on an account. This chain creates none.")
    max_reserves: Constant[U32] = Constant(LOCKS_MAX, doc="The most named reserves. This chain creates none.")
    max_freezes: Constant[U32] = Constant(LOCKS_MAX, doc="The most freezes. This chain creates none.")

    events = (
        Endowed,
        DustLost,
        Transfer,
        Reserved,
        Unreserved,
        ReserveRepatriated,
        Deposit,
        Withdraw,
        Slashed,
        Burned,
    )

    @call(index=0, weight=WEIGHTS["Balances.transfer_allow_death"])
    def transfer_allow_death(self, origin: Signed, dest: MultiAddress, value: CompactBalance) -> None:
        """Send `value` grains. This may end the sender's account."""
        self.transfer(origin.account, dest, value, keep_alive=False)

    @call(index=3, weight=WEIGHTS["Balances.transfer_keep_alive"])
    def transfer_keep_alive(self, origin: Signed, dest: MultiAddress, value: CompactBalance) -> None:
        """Send `value` grains, unless that would end the sender's account."""
        self.transfer(origin.account, dest, value, keep_alive=True)

    @call(index=4, weight=WEIGHTS["Balances.transfer_all"])
    def transfer_all(self, origin: Signed, dest: MultiAddress, keep_alive: bool) -> None:
        """Send the whole spendable balance."""
        self.transfer(origin.account, dest, self.spendable_balance(origin.account, keep_alive), keep_alive)

    @call(index=10, weight=WEIGHTS["Balances.burn"])
    def burn(self, origin: Signed, value: CompactBalance, keep_alive: bool) -> None:
        """Destroy `value` grains of the signer."""
        self.debit(origin.account, value, keep_alive)
        self.retire(value)
        self.emit(Burned(origin.account, value))

    def free_balance(self, account: bytes) -> int:
        """Return the grains of `account` that are not reserved."""
        return self.system.account[account].data.free

    def reserved_balance(self, account: bytes) -> int:
        """Return the reserved grains of `account`."""
        return self.system.account[account].data.reserved

    def spendable_balance(self, account: bytes, keep_alive: bool = False) -> int:
        """Return the grains that `account` can pay."""
        info = self.system.account[account]
        return self.spendable_of(info.data, keep_alive and not info.sufficients)

    def spendable_of(self, data: AccountData, keep_alive: bool = False) -> int:
        """Return the grains that an account with this balance can pay."""
        spendable = _unfrozen(data)
        if keep_alive:
            spendable = min(spendable, data.free + data.reserved - self.existential_deposit)
        return max(0, spendable)

    def transfer(self, source: bytes, target: bytes, amount: int, keep_alive: bool = False) -> None:
        """Transfer free grains. Raise FundsUnavailable, NotExpendable or BelowMinimum if that is impossible."""
        # Two writes of one account would lose the first: both start from the record read before.
        if source == target:
            ensure(amount <= self.spendable_balance(source, keep_alive), FundsUnavailable)
        else:
            target_info = self.system.account[target]
            ensure(amount == 0 or self._can_receive(target_info, amount), BelowMinimum)
            self.debit(source, amount, keep_alive)
            self._write(
                target, target_info, target_info.data.free + amount, target_info.data.reserved, target_info.data.frozen
            )
        self.emit(Transfer(source, target, amount))

    def debit(self, account: bytes, amount: int, keep_alive: bool = False) -> None:
        """Take free grains out of an account. The caller must credit or retire them within the same call."""
        info = self.system.account[account]
        data = info.data
        ensure(amount <= _unfrozen(data), FundsUnavailable)
        # A sustained account lives without a deposit.
        if keep_alive and not info.sufficients:
            ensure(data.free + data.reserved - amount >= self.existential_deposit, NotExpendable)
        self._write(account, info, data.free - amount, data.reserved, data.frozen)

    def credit(self, account: bytes, amount: int) -> None:
        """Add debited grains to an account. Burn them if they are too few to create it."""
        if amount == 0:
            return
        info = self.system.account[account]
        # Unlike a transfer, a payout must not fail: that would block the payer's whole call.
        if not self._can_receive(info, amount):
            self.retire(amount)
            self.emit(DustLost(account, amount))
            return
        self._write(
            account,
            info,
            info.data.free + amount,
            info.data.reserved,
            info.data.frozen,
        )

    def retire(self, amount: int) -> None:
        """Burn debited grains: the issuance falls."""
        self.total_issuance.set(self.total_issuance.get() - amount)
        self.burned.set(self.burned.get() + amount)

    def begin_transaction(self, account: bytes, fee_grains: int) -> None:
        """Use the account's next nonce and take `fee_grains`, in one write, because every transaction does both."""
        info = self.system.account[account]
        data = info.data
        ensure(fee_grains <= _unfrozen(data), FundsUnavailable)
        self._write(
            account,
            info,
            data.free - fee_grains,
            data.reserved,
            data.frozen,
            uses_nonce=True,
        )
        # Explorers show the fee from this event.
        self.emit(Withdraw(account, fee_grains))

    def deposit(self, account: bytes, amount: int) -> None:
        """Call `credit` and emit its event, for fees and rewards."""
        self.credit(account, amount)
        self.emit(Deposit(account, amount))

    # ------------------------------------------------------------------------------------------------------- holds

    def held(self, who: bytes, hold: Hold) -> int:
        """Return an account's hold for a case, in grains."""
        return self.held_cases[who, hold]

    def hold(self, who: bytes, hold: Hold, amount: int) -> None:
        """Hold free grains for a case. Frozen grains may be held. Raise FundsUnavailable if there are too few."""
        info = self.system.account[who]
        ensure(amount <= info.data.free, FundsUnavailable)
        if amount:
            self._hold(who, info, hold, amount, free_grains=info.data.free - amount)
            self.emit(Reserved(who, amount))

    def release(self, account: bytes, hold: Hold, amount: int) -> None:
        """Return held grains of a case to their owner."""
        self.pay_held(account, hold, ((account, amount),))

    def pay_held(self, account: bytes, hold: Hold, shares: Sequence[tuple[bytes | None, int]]) -> None:
        """Pay (payee, amount) from an account's hold for a case. Its own share becomes free, a share of None burns."""
        own_grains = sum(share_grains for payee, share_grains in shares if payee == account)
        paid_grains = sum(share_grains for _, share_grains in shares)
        if not paid_grains:
            return
        info = self.system.account[account]
        self._hold(account, info, hold, -paid_grains, free_grains=info.data.free + own_grains)
        if own_grains:
            self.emit(Unreserved(account, own_grains))
        for payee, share_grains in shares:
            if payee is None and share_grains:
                self.retire(share_grains)
                self.emit(Slashed(account, share_grains))
            elif payee is not None and payee != account and share_grains:
                self.emit(ReserveRepatriated(account, payee, share_grains, BalanceStatus.Free))
                self.credit(payee, share_grains)

    def rededicate(self, who: bytes, source: Hold, target: Hold, amount: int) -> None:
        """Move `amount` of a hold from the case `source` to the case `target`."""
        if amount:
            info = self.system.account[who]
            self.book.change(who, source, -amount)
            held_grains = self.book.change(who, target, amount)
            assert held_grains == info.data.reserved, "reserved grains equal the grains held for cases"

    def check_ended(self, hold: Hold) -> None:
        """Assert that no account holds anything for an ended case."""
        assert not self.case_totals[hold], "an ended case holds no grains"

    @cached_property
    def book(self) -> HoldBook:
        """The record of holds."""
        return HoldBook(self.holds, self.held_cases, self.case_totals)

    def _hold(self, account: bytes, info: AccountInfo, hold: Hold, added_grains: int, *, free_grains: int) -> None:
        reserved_grains = info.data.reserved + added_grains
        held_grains = self.book.change(account, hold, added_grains)
        # Catches a grain that is reserved without a hold, or held and not reserved.
        assert held_grains == reserved_grains, "reserved grains equal the grains held for cases"
        self._write(account, info, free_grains, reserved_grains, info.data.frozen)

    def entrust(self, account: bytes, keeper: bytes, hold: Hold, amount: int) -> None:
        """Move free grains to an account of the chain, held there for a case. Raise FundsUnavailable if too few."""
        self.debit(account, amount)
        self.credit(keeper, amount)
        self.emit(Transfer(account, keeper, amount))
        self.hold(keeper, hold, amount)

    def sustain(self, account: bytes, reasons: int) -> None:
        """Add or remove reasons for which an account lives without a deposit. After the last, dust is burned."""
        info = self.system.account[account]
        sufficients = info.sufficients + reasons
        assert sufficients >= 0, "an account has at least 0 sufficients"
        changed_info = AccountInfo(info.nonce, info.consumers, info.providers, sufficients, info.data)
        self._write(account, changed_info, info.data.free, info.data.reserved, info.data.frozen)

    def set_frozen(self, account: bytes, frozen_grains: int) -> None:
        """Freeze the last `frozen_grains` of `account`. Reserved grains count towards it."""
        info = self.system.account[account]
        self._write(account, info, info.data.free, info.data.reserved, frozen_grains)

    def genesis(self, config: dict[str, Any]) -> None:
        """Allocate `{"balances": [[address or hex, grains], ...]}`, which is the whole issuance."""
        for account_text, amount in config.get("balances", []):
            account = account_from_text(account_text)
            # Twice named, an account would lose its first allocation, and the issuance would be wrong.
            if account in self.system.account or amount < self.existential_deposit:
                raise ValueError(f"genesis balance of {account_text}: named twice, or below the existential deposit")
            self.system.account[account] = AccountInfo(providers=1, data=AccountData(free=amount))
            self.total_issuance.set(self.total_issuance.get() + amount)

    def _can_receive(self, info: AccountInfo, amount: int) -> bool:
        return info.sufficients > 0 or info.data.free + info.data.reserved + amount >= self.existential_deposit

    def _write(
        self,
        account: bytes,
        info: AccountInfo,
        free_grains: int,
        reserved_grains: int,
        frozen_grains: int,
        *,
        uses_nonce: bool = False,
    ) -> None:
        """Replace the balance in `info`, and create or end the account. All balances are written here."""
        dust = (
            free_grains
            if not reserved_grains and free_grains < self.existential_deposit and not info.sufficients
            else 0
        )
        provider_count = 1 if free_grains - dust or reserved_grains or info.sufficients else 0
        data = AccountData(free_grains - dust, reserved_grains, frozen_grains if provider_count else 0, info.data.flags)
        # As in the SDK, a count above 0 tells clients that the account cannot end.
        consumer_count = 1 if reserved_grains or data.frozen else 0
        # The record outlives the balance: without its nonce, old immortal transactions could be replayed (ADR 11).
        self.system.account[account] = AccountInfo(
            info.nonce + uses_nonce, consumer_count, provider_count, info.sufficients, data
        )
        if provider_count > info.providers:
            self.emit(NewAccount(account))
            self.emit(Endowed(account, free_grains))
        elif provider_count < info.providers:
            self.emit(KilledAccount(account))
        if dust:
            self.retire(dust)
            self.emit(DustLost(account, dust))


def _unfrozen(data: AccountData) -> int:
    """Return the spendable part of a balance. Reserved grains count towards the frozen ones."""
    # Every transfer calls this several times: `max` would take longer than all the rest.
    return data.free if data.frozen <= data.reserved else data.free - (data.frozen - data.reserved)
