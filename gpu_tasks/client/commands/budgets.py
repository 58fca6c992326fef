"""Commands about budgets: create one, let keys spend from it, list, revoke, take money back, close."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from cli.calls import PlannedCall, Planning, sends
from cli.chain_time import ChainTime, date_text, read_time
from cli.output import Account
from cli.session import WalletSession, reads
from gpu_tasks.client.buyer import BudgetError, budgets_of_key, budgets_of_owner, delegate_of, has_budgets, named_budget
from gpu_tasks.client.commands.calls import planned, time_left
from gpu_tasks.client.offers.outlook import slot_ms, spendable
from gpu_tasks.client.sessions.session_reads import sessions_of_customer
from gpu_tasks.market.budgets.budgets import Budgets
from gpu_tasks.market.budgets.budgets_api import BudgetStatus, DelegateStatus
from gpu_tasks.market.budgets.events import BudgetCreated
from gpu_tasks.market.budgets.records import REVOKED_BLOCKS, SERVICES_MAX, Caps
from gpu_tasks.tasks.quantities import TimeSpan
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.balances import Balances
from runtime.pallets.utility import Utility
from wallet.amounts import Grains, counted, format_amount
from wallet.client import ChainClient, Outcome

FEES = GRAINS_PER_OGPU // 10
"""The money for the transaction fees of a new key."""
BUDGET_COLUMNS = ("budget", "account", "owner", "free", "held", "delegates")
DELEGATE_COLUMNS = (
    "budget", "key", "per_unit", "per_day", "total", "services", "spent_today", "spent_in_all", "expires",
)  # fmt: skip


@sends
async def create(by: Planning, deposit: int) -> PlannedCall:
    """Carry out `ogpu budget create`."""
    _require_budgets(by.client)
    record_deposit = await by.client.read(Budgets.budget_deposit.item)

    def result(outcome: Outcome) -> Mapping[str, Any]:
        (created,) = (event for event in outcome.events if isinstance(event, BudgetCreated))
        return {"budget": created.budget, "account": Account(created.account)}

    facts = {"deposit": Grains(deposit), "record_deposit": Grains(record_deposit)}
    return planned(
        by.session.output, Budgets.create(deposit=deposit), facts, locks=deposit + record_deposit, result=result
    )


@sends
async def grant(
    by: Planning, budget: str, delegate: str, unit: int, day: int, total: int, services: tuple[int, ...],
    term: TimeSpan | None, until_block: int | None, fees: int | None,
) -> PlannedCall:  # fmt: skip
    """Carry out `ogpu budget grant`."""
    if (term is None) == (until_block is None):
        raise click.UsageError("Give --for with a time, or --until-block with a block")
    if len(set(services)) > SERVICES_MAX:
        raise click.UsageError(f"give at most {SERVICES_MAX} services. Without --service the key may use all")
    client, key = by.client, by.session.account(delegate)
    found = await named_budget(client, budget, by.payer.account)
    chain_time = await read_time(client, await client.finalized())
    expires_at = until_block or chain_time.height + (term or TimeSpan()).blocks_for(slot_ms(client))
    if not chain_time.height < expires_at < 2**32:
        raise BudgetError(
            f"the grant would end at block {expires_at:,}. The chain is at block {chain_time.height:,}. Name a later "
            "block, below 4,294,967,296",
            code="grant_term",
        )
    caps = Caps(unit, day, total, tuple(sorted(set(services))), expires_at)
    if fees is None:
        fees = 0 if await spendable(client, key) else FEES
    call = Budgets.grant(budget=found.id, delegate=key, caps=caps)
    before = delegate_of(found, key)
    facts = {
        "budget": found.id,
        **_caps_facts(key, caps, chain_time),
        **({} if by.session.output.as_json else {"services": _services_text(caps)}),
        **({} if before is None else {"spent_before": Grains(before.spent_total)}),
        "for_its_fees": Grains(fees),
    }
    if fees:
        # One call, so that no key has caps and cannot pay for using them.
        call = Utility.batch_all(calls=(call, Balances.transfer_keep_alive(dest=key, value=fees)))
    return planned(by.session.output, call, facts, locks=fees)


def _caps_facts(key: bytes, caps: Caps, chain_time: ChainTime) -> dict[str, Any]:
    return {
        "key": Account(key),
        "per_unit": Grains(caps.unit),
        "per_day": Grains(caps.day),
        "total": Grains(caps.total),
        "services": list(caps.services),
        "expires_at_block": caps.expires_at,
        "expires_about": date_text(chain_time.block_ms(caps.expires_at)),
    }


def _services_text(caps: Caps) -> str:
    return ", ".join(map(str, caps.services)) or "all"


@reads
async def ps(session: WalletSession, client: ChainClient, key_text: str) -> None:
    """Carry out `ogpu budget ps`."""
    _require_budgets(client)
    account = session.account(key_text)
    owned = await budgets_of_owner(client, account)
    known = {budget.id for budget in owned}
    budgets = [*owned, *(each for each in await budgets_of_key(client, account) if each.id not in known)]
    chain_time, output = await read_time(client, await client.finalized()), session.output
    if output.as_json:
        rows = [
            {
                **_budget_row(budget),
                "delegates": [_delegate_facts(each, chain_time) for each in _seen(budget, account)],
            }
            for budget in budgets
        ]
        output.rows("Budgets", BUDGET_COLUMNS, rows)
        return
    output.rows("Budgets", BUDGET_COLUMNS, [_budget_row(budget) for budget in budgets])
    delegates = [_delegate_row(budget, each, chain_time) for budget in budgets for each in _seen(budget, account)]
    if delegates:
        output.rows("Keys that may spend", DELEGATE_COLUMNS, delegates)


def _seen(budget: BudgetStatus, account: bytes) -> list[DelegateStatus]:
    """Return the delegates to show: all to the owner, itself to a delegate."""
    return [each for each in budget.delegates if account in (budget.owner, each.key)]


def _budget_row(budget: BudgetStatus) -> dict[str, Any]:
    return {
        "budget": budget.id,
        "account": Account(budget.account),
        "owner": Account(budget.owner),
        "free": Grains(budget.free),
        "held": Grains(budget.held),
        "delegates": len(budget.delegates),
    }


def _delegate_facts(delegate: DelegateStatus, chain_time: ChainTime) -> dict[str, Any]:
    """Return a delegate for programs."""
    facts = _caps_facts(delegate.key, delegate.caps, chain_time)
    return {
        **facts,
        "spent_today": Grains(delegate.spent_today),
        "spent_in_all": Grains(delegate.spent_total),
        "is_expired": delegate.caps.expires_at <= chain_time.height,
    }


def _delegate_row(budget: BudgetStatus, delegate: DelegateStatus, chain_time: ChainTime) -> dict[str, Any]:
    """Return a delegate for people."""
    facts, expires_at = _delegate_facts(delegate, chain_time), delegate.caps.expires_at
    left = "expired" if facts["is_expired"] else time_left(chain_time, expires_at)
    return {
        **facts,
        "budget": budget.id[:4],
        "services": _services_text(delegate.caps),
        "expires": f"block {expires_at:,} ({left})",
    }


@sends
async def revoke(by: Planning, budget: str, delegate: str) -> PlannedCall:
    """Carry out `ogpu budget revoke`."""
    found, key = await named_budget(by.client, budget, by.payer.account), by.session.account(delegate)
    closing = [each for each in await sessions_of_customer(by.client, found.account) if each.record.signer == key]
    facts: dict[str, Any] = {"budget": found.id, "key": Account(key)}
    if closing:
        facts["closes"] = f"{counted(len(closing), 'session')}; claims are possible for {REVOKED_BLOCKS} blocks"
    return planned(by.session.output, Budgets.revoke(budget=found.id, delegate=key), facts)


@sends
async def withdraw(by: Planning, budget: str, amount: int) -> PlannedCall:
    """Carry out `ogpu budget withdraw`."""
    found = await named_budget(by.client, budget, by.payer.account)
    if amount > found.free:
        raise BudgetError(
            f"the budget has {format_amount(found.free)} oGPU free. Units and sessions hold "
            f"{format_amount(found.held)} oGPU. Withdraw less, or wait until they end",
            code="funds",
        )
    facts = {"budget": found.id, "amount": Grains(amount), "free_before": Grains(found.free)}
    return planned(by.session.output, Budgets.withdraw(budget=found.id, amount=amount), facts)


@sends
async def close(by: Planning, budget: str) -> PlannedCall:
    """Carry out `ogpu budget close`."""
    found = await named_budget(by.client, budget, by.payer.account)
    if found.held and not found.delegates:
        raise BudgetError(
            f"units or sessions still hold {format_amount(found.held)} oGPU of the budget. The deposit of an ended "
            "unit returns after 7,200 blocks. Take the free money with `ogpu budget withdraw`, and close it later",
            code="budget_in_use",
        )
    return planned(
        by.session.output, Budgets.close(budget=found.id), {"budget": found.id, "returns": Grains(found.free)}
    )


def _require_budgets(client: ChainClient) -> None:
    """Raise BudgetError on a chain whose runtime has no budgets."""
    if not has_budgets(client):
        raise BudgetError("this chain knows no budgets. Its runtime is older. Use another chain", code="no_budgets")
