"""Who owns how many grains, and how they move.

Invariant: all accounts' `free + reserved` add up to `total_issuance`, and with `burned` to what was
issued at genesis. Nothing issues grains afterwards; `retire` is the one way in which they end.
The maps of locks, named reserves, holds and freezes stay empty: clients of a Substrate chain look for them, and what is
held here is the business of the pallet that holds it.
An account lives while it owns the existential deposit or anything reserved; what is left below is
burned as dust. Reserved grains are held by other pallets (bonds, escrow); frozen ones are merely not spendable.
"""

from enum import IntEnum
from typing import Any

from runtime.cryptography.ss58 import account_from_text
from runtime.encoding.codec import U32, named
from runtime.encoding.types import AccountId, Balance, CompactBalance, MultiAddress
from runtime.frame.errors import BelowMinimum, FundsUnavailable, NotExpendable, ensure
from runtime.frame.pallet import Constant, Pallet, Signed, StorageMap, StorageValue, call, event
from runtime.frame.weights import work
from runtime.pallets.balance_locks import LOCKS_MAX, AccountFreezes, AccountHolds, AccountLocks, AccountReserves
from runtime.pallets.system import AccountData, AccountInfo, KilledAccount, NewAccount, System

TRANSFER_WEIGHT = work(reads=2, writes=2)


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
    holds: StorageMap[AccountId, AccountHolds] = StorageMap(default=(), doc="Always empty.")
    freezes: StorageMap[AccountId, AccountFreezes] = StorageMap(default=(), doc="Always empty.")

    existential_deposit: Constant[Balance] = Constant(100_000, doc="The least that an account may own.")
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

    @call(index=0, weight=TRANSFER_WEIGHT)
    def transfer_allow_death(self, origin: Signed, dest: MultiAddress, value: CompactBalance) -> None:
        """Send `value`; the sender's account may end by it."""
        self.transfer(origin.account, dest, value, keep_alive=False)

    @call(index=3, weight=TRANSFER_WEIGHT)
    def transfer_keep_alive(self, origin: Signed, dest: MultiAddress, value: CompactBalance) -> None:
        """Send `value`, but nothing that the sender's account needs to live on."""
        self.transfer(origin.account, dest, value, keep_alive=True)

    @call(index=4, weight=TRANSFER_WEIGHT)
    def transfer_all(self, origin: Signed, dest: MultiAddress, keep_alive: bool) -> None:
        """Send everything that may be sent."""
        self.transfer(origin.account, dest, self.spendable_balance(origin.account, keep_alive), keep_alive)

    @call(index=10, weight=work(reads=2, writes=2))
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
        return self.spendable_of(self.system.account[who].data, keep_alive)

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
        if keep_alive:
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

    def reserve(self, who: bytes, amount: int) -> None:
        """Reserve free grains; FundsUnavailable if there are too few. Frozen grains may be reserved."""
        info = self.system.account[who]
        ensure(amount <= info.data.free, FundsUnavailable)
        self._write(who, info, info.data.free - amount, info.data.reserved + amount, info.data.frozen)
        self.emit(Reserved(who, amount))

    def unreserve(self, who: bytes, amount: int) -> None:
        """Give reserved grains back to their owner; FundsUnavailable if there are too few."""
        info = self.system.account[who]
        ensure(amount <= info.data.reserved, FundsUnavailable)
        self._write(who, info, info.data.free + amount, info.data.reserved - amount, info.data.frozen)
        self.emit(Unreserved(who, amount))

    def repatriate_reserved(self, source: bytes, target: bytes, amount: int, *, stay_reserved: bool = False) -> None:
        """Move reserved grains to another account's free (or, on demand, reserved) grains."""
        self._debit_reserved(source, amount)
        status = BalanceStatus.Reserved if stay_reserved else BalanceStatus.Free
        self.emit(ReserveRepatriated(source, target, amount, status))
        info = self.system.account[target]
        if stay_reserved and amount:
            self._write(target, info, info.data.free, info.data.reserved + amount, info.data.frozen)
        else:
            self.credit(target, amount)

    def slash_reserved(self, who: bytes, amount: int) -> None:
        """Destroy reserved grains: a slash."""
        self._debit_reserved(who, amount)
        self.retire(amount)
        self.emit(Slashed(who, amount))

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
        return info.data.free + info.data.reserved + amount >= self.existential_deposit

    def _debit_reserved(self, who: bytes, amount: int) -> None:
        info = self.system.account[who]
        ensure(amount <= info.data.reserved, FundsUnavailable)
        self._write(who, info, info.data.free, info.data.reserved - amount, info.data.frozen)

    def _write(
        self, who: bytes, info: AccountInfo, free: int, reserved: int, frozen: int, *, uses_nonce: bool = False
    ) -> None:
        """Replace the balance in `info`: the one place where one is written. Opens and ends accounts."""
        dust = free if not reserved and free < self.existential_deposit else 0
        alive = 1 if free - dust or reserved else 0
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
