"""Who owns how many grains, and how they move.

Invariant: all accounts' `free + reserved` add up to `total_issuance`, and with `burned` to what was
issued at genesis. Nothing issues grains afterwards; `retire` is the one way in which they end.
What is reserved is held for a case of a reason, all of it: for each account `reserved` is the sum of its `holds`, and
these of its `held_cases`. A case pays from what it holds, never from what another does.
The maps of locks, named reserves and freezes stay empty: clients of a Substrate chain look for them.
An account lives while it owns the existential deposit or anything reserved, or another pallet sustains it; what is left
below is burned as dust. Reserved grains are held by pallets (bonds, escrow); frozen ones are merely not spendable.
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

# What `pallet_balances` of the SDK keeps besides balances and holds, in its layout: here nothing is ever kept in it.
#
# Wallets, explorers and exchanges read these maps before they say what an account may spend; an empty one is an answer,
# one that is missing is an error to them.
LOCKS_MAX = 50

LockIdentifier = Annotated[bytes, Fixed(8)]


@named("pallet_balances::types::Reasons")
class LockReasons(IntEnum):
    """What locked grains may not be used for."""

    Fee = 0
    Misc = 1
    All = 2


@struct(path="pallet_balances::types::BalanceLock", params={"Balance": Balance})
class BalanceLock:
    """Grains that may not be spent; there are none."""

    id: LockIdentifier
    amount: Balance
    reasons: LockReasons


@struct(path="pallet_balances::types::ReserveData", params={"ReserveIdentifier": LockIdentifier, "Balance": Balance})
class ReserveData:
    """Grains reserved under a name; there are none."""

    id: LockIdentifier
    amount: Balance


@named("ogpu_runtime::RuntimeFreezeReason")
class RuntimeFreezeReason(IntEnum):
    """Why grains are frozen by this pallet: nobody asks it to."""


@struct(path="frame_support::traits::tokens::misc::IdAmount", params={"Id": RuntimeFreezeReason, "Balance": Balance})
class FrozenAmount:
    """Grains frozen for a reason; there are none."""

    id: RuntimeFreezeReason
    amount: Balance


AccountLocks = Annotated[tuple[BalanceLock, ...], Bounded(LOCKS_MAX)]
AccountReserves = Annotated[tuple[ReserveData, ...], Bounded(LOCKS_MAX)]
AccountFreezes = Annotated[tuple[FrozenAmount, ...], Bounded(LOCKS_MAX)]


@named("frame_support::traits::tokens::misc::BalanceStatus")
class BalanceStatus(IntEnum):
    """Which part of an account receives."""

    Free = 0
    Reserved = 1


@event(0)
class Endowed:
    """An account was created with a balance."""

    account: AccountId
    free_balance: Balance


@event(1)
class DustLost:
    """What an account had left was too little to live on, and was burned."""

    account: AccountId
    amount: Balance


@event(2)
class Transfer:
    """Grains moved."""

    from_: AccountId
    to: AccountId
    amount: Balance


@event(4)
class Reserved:
    """Free grains were put aside for a purpose."""

    who: AccountId
    amount: Balance


@event(5)
class Unreserved:
    """Reserved grains became free again."""

    who: AccountId
    amount: Balance


@event(6)
class ReserveRepatriated:
    """Reserved grains went to another account."""

    from_: AccountId
    to: AccountId
    amount: Balance
    destination_status: BalanceStatus


@event(7)
class Deposit:
    """Grains came in, such as a returned fee."""

    who: AccountId
    amount: Balance


@event(8)
class Withdraw:
    """Grains were taken, such as a fee."""

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
    """The ledger. Other pallets move value through its verbs, never by writing accounts."""

    system: System

    total_issuance: StorageValue[Balance] = StorageValue(default=0, doc="All grains there are, in all accounts.")
    burned: StorageValue[Balance] = StorageValue(default=0, doc="All grains that there were.")
    inactive_issuance: StorageValue[Balance] = StorageValue(default=0, doc="Grains that count for no vote: none.")
    locks: StorageMap[AccountId, AccountLocks] = StorageMap(default=(), doc="Always empty.")
    reserves: StorageMap[AccountId, AccountReserves] = StorageMap(default=(), doc="Always empty.")
    holds: StorageMap[AccountId, AccountHolds] = StorageMap(default=(), doc="What is reserved, by reason.")
    freezes: StorageMap[AccountId, AccountFreezes] = StorageMap(default=(), doc="Always empty.")
    held_cases: StorageDoubleMap[AccountId, Hold, Balance] = StorageDoubleMap(
        default=0, doc="What is reserved, by case."
    )
    case_totals: StorageMap[Hold, Balance] = StorageMap(default=0, doc="What all accounts hold for a case.")

    existential_deposit: Constant[Balance] = Constant(100_000, doc="The least that an account may own.")
    supply_cap: Parameter[Balance] = Parameter(
        CAP_GRAINS, unit="grains", is_frozen=True, doc="All grains that there can ever be: no origin makes one."
    )
    transfer_tax: Parameter[U32] = Parameter(
        0, unit="ppm", is_frozen=True, doc="A transfer moves what it says: nobody may take a part of it."
    )
    max_locks: Constant[U32] = Constant(LOCKS_MAX, doc="The most locks on an account; none is ever made.")
    max_reserves: Constant[U32] = Constant(LOCKS_MAX, doc="The most named reserves; none is ever made.")
    max_freezes: Constant[U32] = Constant(LOCKS_MAX, doc="The most freezes; none is ever made.")

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
        """Send `value`; the sender's account may end by it."""
        self.transfer(origin.account, dest, value, keep_alive=False)

    @call(index=3, weight=WEIGHTS["Balances.transfer_keep_alive"])
    def transfer_keep_alive(self, origin: Signed, dest: MultiAddress, value: CompactBalance) -> None:
        """Send `value`, but nothing that the sender's account needs to live on."""
        self.transfer(origin.account, dest, value, keep_alive=True)

    @call(index=4, weight=WEIGHTS["Balances.transfer_all"])
    def transfer_all(self, origin: Signed, dest: MultiAddress, keep_alive: bool) -> None:
        """Send everything that may be sent."""
        self.transfer(origin.account, dest, self.spendable_balance(origin.account, keep_alive), keep_alive)

    @call(index=10, weight=WEIGHTS["Balances.burn"])
    def burn(self, origin: Signed, value: CompactBalance, keep_alive: bool) -> None:
        """Destroy `value` of the signer's own grains."""
        self.debit(origin.account, value, keep_alive)
        self.retire(value)
        self.emit(Burned(origin.account, value))

    def free_balance(self, who: bytes) -> int:
        """Grains of `who` that are not reserved."""
        return self.system.account[who].data.free

    def reserved_balance(self, who: bytes) -> int:
        """Grains of `who` that are put aside."""
        return self.system.account[who].data.reserved

    def spendable_balance(self, who: bytes, keep_alive: bool = False) -> int:
        """How much `who` can pay now."""
        info = self.system.account[who]
        return self.spendable_of(info.data, keep_alive and not info.sufficients)

    def spendable_of(self, data: AccountData, keep_alive: bool = False) -> int:
        """How much an account with this balance can pay."""
        spendable = _unfrozen(data)
        if keep_alive:
            spendable = min(spendable, data.free + data.reserved - self.existential_deposit)
        return max(0, spendable)

    def transfer(self, source: bytes, target: bytes, amount: int, keep_alive: bool = False) -> None:
        """Move free grains; FundsUnavailable, NotExpendable or BelowMinimum if they cannot."""
        if source == target:
            ensure(amount <= self.spendable_balance(source, keep_alive), FundsUnavailable)
        else:
            info = self.system.account[target]
            ensure(amount == 0 or self._can_receive(info, amount), BelowMinimum)
            self.debit(source, amount, keep_alive)
            self._write(target, info, info.data.free + amount, info.data.reserved, info.data.frozen)
        self.emit(Transfer(source, target, amount))

    def debit(self, who: bytes, amount: int, keep_alive: bool = False) -> None:
        """Take free grains out of an account. The caller must credit or retire them within the same call."""
        info = self.system.account[who]
        data = info.data
        ensure(amount <= _unfrozen(data), FundsUnavailable)
        if keep_alive and not info.sufficients:
            ensure(data.free + data.reserved - amount >= self.existential_deposit, NotExpendable)
        self._write(who, info, data.free - amount, data.reserved, data.frozen)

    def credit(self, who: bytes, amount: int) -> None:
        """Put grains that were debited into an account; too few to open an account with are burned."""
        if amount == 0:
            return
        info = self.system.account[who]
        if not self._can_receive(info, amount):
            self.retire(amount)
            self.emit(DustLost(who, amount))
            return
        self._write(who, info, info.data.free + amount, info.data.reserved, info.data.frozen)

    def retire(self, amount: int) -> None:
        """End grains that were debited: the issuance falls."""
        self.total_issuance.set(self.total_issuance.get() - amount)
        self.burned.set(self.burned.get() + amount)

    def begin_transaction(self, who: bytes, fee: int) -> None:
        """Use up the account's next nonce and take `fee`: one write, since every transaction does both."""
        info = self.system.account[who]
        data = info.data
        ensure(fee <= _unfrozen(data), FundsUnavailable)
        self._write(who, info, data.free - fee, data.reserved, data.frozen, uses_nonce=True)
        self.emit(Withdraw(who, fee))

    def deposit(self, who: bytes, amount: int) -> None:
        """`credit` with its event, for fees and rewards."""
        self.credit(who, amount)
        self.emit(Deposit(who, amount))

    # ------------------------------------------------------------------------------------------------------- holds

    def held(self, who: bytes, hold: Hold) -> int:
        """What an account holds for a case."""
        return self.held_cases[who, hold]

    def hold(self, who: bytes, hold: Hold, amount: int) -> None:
        """Hold free grains for a case; FundsUnavailable if there are too few. Frozen grains may be held."""
        info = self.system.account[who]
        ensure(amount <= info.data.free, FundsUnavailable)
        if amount:
            self._hold(who, info, hold, amount, free=info.data.free - amount)
            self.emit(Reserved(who, amount))

    def release(self, who: bytes, hold: Hold, amount: int) -> None:
        """Give grains that are held for a case back to their owner."""
        self.pay_held(who, hold, ((who, amount),))

    def pay_held(self, who: bytes, hold: Hold, shares: Sequence[tuple[bytes | None, int]]) -> None:
        """Pay (payee, amount) from what `who` holds for a case: its own part becomes free, what nobody gets burns."""
        own = sum(amount for payee, amount in shares if payee == who)
        paid = sum(amount for _, amount in shares)
        if not paid:
            return
        info = self.system.account[who]
        self._hold(who, info, hold, -paid, free=info.data.free + own)
        if own:
            self.emit(Unreserved(who, own))
        for payee, amount in shares:
            if payee is None and amount:
                self.retire(amount)
                self.emit(Slashed(who, amount))
            elif payee is not None and payee != who and amount:
                self.emit(ReserveRepatriated(who, payee, amount, BalanceStatus.Free))
                self.credit(payee, amount)

    def rededicate(self, who: bytes, source: Hold, target: Hold, amount: int) -> None:
        """Hold for the case `target` what was held for `source`."""
        if amount:
            info = self.system.account[who]
            self.book.change(who, source, -amount)
            held = self.book.change(who, target, amount)
            assert held == info.data.reserved, "what is reserved is held for a case"

    def check_ended(self, hold: Hold) -> None:
        """Where a case ends: nobody holds anything for it."""
        assert not self.case_totals[hold], "nothing is held for a case that has ended"

    @cached_property
    def book(self) -> HoldBook:
        """Where holds are written down."""
        return HoldBook(self.holds, self.held_cases, self.case_totals)

    def _hold(self, who: bytes, info: AccountInfo, hold: Hold, delta: int, *, free: int) -> None:
        reserved = info.data.reserved + delta
        held = self.book.change(who, hold, delta)
        # one grain that is reserved for nothing, or held and not reserved, stops here
        assert held == reserved, "what is reserved is held for a case"
        self._write(who, info, free, reserved, info.data.frozen)

    def entrust(self, who: bytes, keeper: bytes, hold: Hold, amount: int) -> None:
        """Have an account of the chain's own hold an account's free grains for a case; FundsUnavailable if too few."""
        self.debit(who, amount)
        self.credit(keeper, amount)
        self.emit(Transfer(who, keeper, amount))
        self.hold(keeper, hold, amount)

    def sustain(self, who: bytes, reasons: int) -> None:
        """Add to the reasons for which an account lives whatever it owns, or end some; after the last, dust ends."""
        info = self.system.account[who]
        sufficients = info.sufficients + reasons
        assert sufficients >= 0, "a reason to live ends once"
        changed = AccountInfo(info.nonce, info.consumers, info.providers, sufficients, info.data)
        self._write(who, changed, info.data.free, info.data.reserved, info.data.frozen)

    def set_frozen(self, who: bytes, amount: int) -> None:
        """Keep the last `amount` of what `who` owns from being spent; reserved grains count towards it."""
        info = self.system.account[who]
        self._write(who, info, info.data.free, info.data.reserved, amount)

    def genesis(self, config: dict[str, Any]) -> None:
        """`{"balances": [[address or hex, grains], ...]}`: the allocations, which are the whole issuance."""
        for text, amount in config.get("balances", []):
            who = account_from_text(text)
            if who in self.system.account or amount < self.existential_deposit:
                raise ValueError(f"genesis balance of {text}: named twice, or below the existential deposit")
            self.system.account[who] = AccountInfo(providers=1, data=AccountData(free=amount))
            self.total_issuance.set(self.total_issuance.get() + amount)

    def _can_receive(self, info: AccountInfo, amount: int) -> bool:
        return info.sufficients > 0 or info.data.free + info.data.reserved + amount >= self.existential_deposit

    def _write(
        self, who: bytes, info: AccountInfo, free: int, reserved: int, frozen: int, *, uses_nonce: bool = False
    ) -> None:
        """Replace the balance in `info`: the one place where one is written. Opens and ends accounts."""
        dust = free if not reserved and free < self.existential_deposit and not info.sufficients else 0
        alive = 1 if free - dust or reserved or info.sufficients else 0
        data = AccountData(free - dust, reserved, frozen if alive else 0, info.data.flags)
        consumers = 1 if reserved or data.frozen else 0
        # The record outlives the balance: with its nonce gone, old immortal transactions could be replayed (ADR 11).
        self.system.account[who] = AccountInfo(info.nonce + uses_nonce, consumers, alive, info.sufficients, data)
        if alive > info.providers:
            self.emit(NewAccount(who))
            self.emit(Endowed(who, free))
        elif alive < info.providers:
            self.emit(KilledAccount(who))
        if dust:
            self.retire(dust)
            self.emit(DustLost(who, dust))


def _unfrozen(data: AccountData) -> int:
    """What may be spent of a balance: reserved grains count towards the frozen ones."""
    # Every transfer asks several times: `max` would take longer than all the rest.
    return data.free if data.frozen <= data.reserved else data.free - (data.frozen - data.reserved)
