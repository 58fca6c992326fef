"""A chain with a budget: an owner, an application that is its delegate, and sessions that the delegate opens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_tasks.market.budgets.budgets import Budgets
from gpu_tasks.market.budgets.records import DAY_BLOCKS, Budget, Caps, Delegate, budget_id_of
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import UnitTerms, unit_id_of
from gpu_tasks.market.sessions.records import SessionState, session_id_of
from gpu_tasks.market.sessions.sessions import Sessions
from runtime.frame.pallet import Pallet
from session_chain import DEPOSIT, SessionChain, opening
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    OGPU,
    PALLETS,
    Keys,
    hash_of,
    named_keys,
    signed,
    terms,
)

OWNER = CUSTOMER
APP = CUSTOMER.provider
"""The delegate: the account whose key signs the vouchers of `session_chain`."""
STRANGER = Keys("stranger")
MONEY = 100 * OGPU
RECORD = Budgets.budget_deposit.default
SESSION_RECORD = Sessions.session_deposit.default
UNIT_RECORD = InferenceMarket.unit_deposit.default


@dataclass
class BudgetChain(SessionChain):
    """The chain. Sessions of a delegate are claims of its provider as in `SessionChain`."""

    pallets: tuple[type[Pallet], ...] = (*PALLETS, Sessions, Budgets)

    @property
    def budgets(self) -> Budgets:
        """The pallet over the newest state."""
        return self.now()[Budgets]

    def create(self, deposit: int = MONEY, owner: bytes = OWNER.stash) -> bytes:
        """Make a block in which an owner creates a budget, and return its id."""
        parent, number = hash_of(self.height), self.budgets.creation_counts[owner]
        self.block(signed(owner, Budgets.create(deposit=deposit)))
        return budget_id_of(GENESIS_HASH, parent, owner, number)

    def granted(self, deposit: int = MONEY, /, **changed: Any) -> bytes:
        """Return a budget whose delegate is the application."""
        budget_id = self.create(deposit)
        self.block(signed(OWNER.stash, Budgets.grant(budget=budget_id, delegate=APP, caps=caps(**changed))))
        return budget_id

    def budget(self, budget_id: bytes) -> Budget:
        """Return a budget."""
        record = self.budgets.budgets[budget_id]
        assert record is not None
        return record

    def delegate(self, budget_id: bytes, key: bytes = APP) -> Delegate:
        """Return a delegate."""
        record = self.budgets.delegates[budget_id, key]
        assert record is not None
        return record

    def free(self, account: bytes) -> int:
        """Return the free grains of an account."""
        return self.budgets.balances.free_balance(account)

    def money(self, budget_id: bytes) -> int:
        """Return the free grains of a budget."""
        return self.free(self.budget(budget_id).account)

    def spend_open(self, budget_id: bytes, key: bytes = APP, **changed: Any) -> bytes:
        """Make a block in which a delegate opens a session, and return its id."""
        account = self.budget(budget_id).account
        number = self.room.opening_counts[account]
        self.block(signed(key, spend(budget_id, opening(**{"signer": key, **changed}))))
        return session_id_of(GENESIS_HASH, account, number)

    def spend_seated(self, budget_id: bytes, key: bytes = APP, **changed: Any) -> bytes:
        """Open a session as a delegate, and make blocks until a device is drawn for it. Return its id."""
        session_id = self.spend_open(budget_id, key, **changed)
        while self.session(session_id).state is SessionState.WAITING:
            self.block()
        return session_id

    def spend_post(self, budget_id: bytes, *units: UnitTerms, key: bytes = APP) -> list[bytes]:
        """Make a block in which a delegate posts units, and return their ids."""
        account = self.budget(budget_id).account
        posted = self.now()[InferenceMarket].post_counts[account]
        self.block(signed(key, spend(budget_id, post(*units))))
        return [unit_id_of(GENESIS_HASH, account, posted + place) for place in range(len(units))]


def budget_chain(size: int = 3, **changed: Any) -> BudgetChain:
    """Return a chain of `size` validators."""
    return BudgetChain(named_keys(size), **changed)


def caps(**changed: Any) -> Caps:
    """Return caps that permit several sessions of `DEPOSIT` and units of an oGPU."""
    usual = {"unit": 2 * DEPOSIT, "day": 20 * OGPU, "total": 40 * OGPU, "services": (), "expires_at": 3 * DAY_BLOCKS}
    return Caps(**{**usual, **changed})


def spend(budget_id: bytes, call: Any) -> Any:
    """Return the call by which a delegate makes another one."""
    return Budgets.spend(budget=budget_id, call=call)


def post(*units: UnitTerms, service: int = 0) -> Any:
    """Return the call that posts units."""
    return InferenceMarket.post(service=service, units=units or (terms(),))


def principal_of(chain: BudgetChain, account: bytes) -> bytes:
    """Return the account for which another one acts."""
    return chain.now()[Devices].operator(account)
