"""The account that buys, and the key that signs: the key's own account, or a budget that the key may spend.

Invariant: a purchase out of a budget is compared with the caps of the key before anything is stored, signed or sent.
The chain compares it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from cli.ids import first_digits, only_match
from gpu_tasks.market.budgets.budgets import Budgets
from gpu_tasks.market.budgets.budgets_api import BUDGETS_SHOWN_MAX, BudgetStatus, DelegateStatus
from gpu_tasks.market.budgets.records import DAY_BLOCKS
from runtime.cryptography import ss58
from runtime.frame.call import Call
from wallet.amounts import format_amount
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.trust import hash_typed

DIGITS_LEAST = 4
BUDGETS_LOOKED_AT_MAX = 256
"""The most budgets of a key that a command looks at."""


class BudgetError(WalletError):
    """A budget is unknown, or does not allow the purchase."""


@dataclass(frozen=True, slots=True)
class Buyer:
    """The account that buys, and the key that signs for it."""

    signer: bytes
    customer: bytes
    """The account of the key, or of the budget."""
    budget: bytes | None = None
    owner: bytes | None = None
    """The owner of the budget."""

    @classmethod
    def alone(cls, account: bytes) -> Self:
        """Return a key that buys for its own account."""
        return cls(account, account)

    @property
    def name(self) -> bytes:
        """The buyer's part of a purchase's identity. Two delegates of a budget buy apart."""
        return self.customer if self.budget is None else self.customer + self.signer

    @property
    def principal(self) -> bytes:
        """The account whose own devices do not work for the purchase, and whose validator does not check it."""
        return self.owner or self.customer

    def call(self, call: Call) -> Call:
        """Return the call that the signer signs for a purchase."""
        return call if self.budget is None else Budgets.spend(budget=self.budget, call=call)


@dataclass(frozen=True, slots=True)
class Outlay:
    """The part of a purchase that caps bound, in grains."""

    service: int
    units: Sequence[int]
    """The price of each unit, or the deposit of a session."""
    amount: int
    """All money that leaves the account, without deposits for records."""


# ------------------------------------------------------------------------------------------------------------ reading


def has_budgets(client: ChainClient) -> bool:
    """Return True if the chain knows budgets."""
    return Budgets in client.runtime.pallets


async def budgets_of_key(client: ChainClient, account: bytes) -> list[BudgetStatus]:
    """Return the budgets that a key may spend, at the newest final block."""
    if not has_budgets(client):
        return []
    final, found = await client.finalized(), list[BudgetStatus]()
    # Anybody may name a key, so the number of its budgets has no limit on the chain.
    while len(found) < BUDGETS_LOOKED_AT_MAX:
        after = found[-1].id if found else None
        page: tuple[BudgetStatus, ...] = await client.query("BudgetsApi_budgets_of_key", account, after, at=final)
        found += page
        if len(page) < BUDGETS_SHOWN_MAX:
            break
    return found


async def budgets_of_owner(client: ChainClient, account: bytes) -> list[BudgetStatus]:
    """Return the budgets of an owner, at the newest final block."""
    if not has_budgets(client):
        return []
    return list(await client.query("BudgetsApi_budgets_of_owner", account, at=await client.finalized()))


async def budget_of(client: ChainClient, budget_id: bytes) -> BudgetStatus | None:
    """Return a budget at the newest final block, or None for an unknown id."""
    if not has_budgets(client):
        return None
    found: BudgetStatus | None = await client.query("BudgetsApi_budget", budget_id, at=await client.finalized())
    return found


async def accounts_of(client: ChainClient, account: bytes) -> list[bytes]:
    """Return an account, and the accounts of the budgets that its key may spend."""
    return [account, *(budget.account for budget in await budgets_of_key(client, account))]


async def named_budget(client: ChainClient, text: str, account: bytes) -> BudgetStatus:
    """Return the budget of an id, or of its first digits among those of a key. Raise BudgetError."""
    whole = hash_typed(text)
    found = None if whole is None else await budget_of(client, whole)
    if found is not None:
        return found
    digits = first_digits(text, DIGITS_LEAST) if text.startswith("0x") else None
    if digits is None:
        raise BudgetError(
            f"{text!r} is not the id of a budget. Type 0x and at least {DIGITS_LEAST} hexadecimal digits. "
            "`ogpu budget ps` shows ids",
            code="invalid_id",
        )
    known = [*await budgets_of_owner(client, account), *await budgets_of_key(client, account)]
    match = only_match(text, digits, {budget.id: None for budget in known})
    if match is None:
        raise BudgetError(
            f"no budget of this key begins with {text}. It was closed, its owner revoked this key, or it "
            "belongs to others. `ogpu budget ps` lists the budgets that this key may spend",
            code="budget_unknown",
        )
    return next(budget for budget in known if budget.id == match)


def delegate_of(budget: BudgetStatus, account: bytes) -> DelegateStatus | None:
    """Return the rights of a key, or None without any."""
    return next((each for each in budget.delegates if each.key == account), None)


async def buyer_for(client: ChainClient, account: bytes, budget_text: str | None) -> Buyer:
    """Return the buyer of a command: a key alone, or with the budget of `--budget`. Raise BudgetError."""
    if budget_text is None:
        return Buyer.alone(account)
    budget = await named_budget(client, budget_text, account)
    await _rights(client, budget, account)
    return Buyer(account, budget.account, budget.id, budget.owner)


# -------------------------------------------------------------------------------------------------------------- caps


async def require_caps(client: ChainClient, buyer: Buyer, outlay: Outlay) -> None:
    """Raise BudgetError, with the next step, for a purchase that the caps of the key do not allow."""
    if buyer.budget is None or not outlay.units:
        return
    budget = await budget_of(client, buyer.budget)
    if budget is None:
        raise BudgetError("the budget was closed. Ask its owner for another one", code="budget_unknown")
    rights = await _rights(client, budget, buyer.signer)
    caps, dearest = rights.caps, max(outlay.units)
    if caps.services and outlay.service not in caps.services:
        listed = ", ".join(map(str, caps.services))
        raise BudgetError(
            f"this key may not use service {outlay.service}. It may use {listed}. Name one of these, or ask the "
            "budget's owner",
            code="service_not_allowed",
        )
    _require_cap(dearest, caps.unit, "a unit's price or a session's deposit", "unit_cap", "Lower the price or the "
                 "deposit, or ask the budget's owner to raise the cap")  # fmt: skip
    height = await client.height(await client.finalized())
    wait = f"Wait {DAY_BLOCKS - height % DAY_BLOCKS:,} blocks for the next day"
    _require_cap(outlay.amount, max(0, caps.day - rights.spent_today), "the rest of the day", "day_cap",
                 f"{wait}, or ask the budget's owner to raise the cap")  # fmt: skip
    _require_cap(outlay.amount, max(0, caps.total - rights.spent_total), "the rest of its grant", "total_cap",
                 "Ask the budget's owner to raise the cap")  # fmt: skip


async def _rights(client: ChainClient, budget: BudgetStatus, account: bytes) -> DelegateStatus:
    """Return the rights of a key that may spend now. Raise BudgetError."""
    rights = delegate_of(budget, account)
    if rights is None:
        raise BudgetError(
            f"{ss58.encode(account)} may not spend this budget. It never could, or its owner revoked it. Ask the "
            f"owner, {ss58.encode(budget.owner)}",
            code="not_delegate",
        )
    height = await client.height(await client.finalized())
    if height >= rights.caps.expires_at:
        raise BudgetError(
            f"the right to spend this budget ended at block {rights.caps.expires_at:,}. The chain is at block "
            f"{height:,}. Ask the owner for a new grant",
            code="budget_expired",
        )
    return rights


def _require_cap(amount: int, cap: int, subject: str, code: str, advice: str) -> None:
    if amount > cap:
        raise BudgetError(
            f"this takes {format_amount(amount)} oGPU of the budget. The key may spend {format_amount(cap)} oGPU for "
            f"{subject}. {advice}",
            code=code,
        )
