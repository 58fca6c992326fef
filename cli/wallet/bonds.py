"""The bond of a validator: begin it, reduce it, and free unbonded stake."""

from __future__ import annotations

from cli.calls import PlannedCall, Planning, sends
from cli.output import Account, as_text
from cli.wallet.delegations import plan_leaving
from cli.wallet.staking_facts import RISK_OF_BOND, StakingView, open_view
from runtime.frame.runtime import Bound
from runtime.pallets.staking.holdings import is_free, kept_until, value_now
from runtime.pallets.staking.stakers import Unlocking
from runtime.pallets.staking.staking_events import Withdrawn
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.amounts import Grains
from wallet.client import Outcome


@sends
async def stake(by: Planning, amount: int) -> PlannedCall:
    """Plan a bond."""
    view = await open_view(by.client)
    own = await view.staked(by.payer.account, by.payer.account)
    least = await view.look(lambda bound: bound[TrustStake].validator_bond_min)
    call = (TrustStake.bond_extra if own else TrustStake.bond)(value=amount)
    facts = {
        "amount": Grains(amount),
        "bond_afterwards": Grains(own + amount),
        "validator_bond_min": Grains(least),
        **view.joining_facts(),
        "can_go_wrong": RISK_OF_BOND,
    }
    return PlannedCall(call, facts, moves=amount)


@sends
async def unstake(by: Planning, amount: int, validator: str | None) -> PlannedCall:
    """Plan the start of unbonding."""
    if validator is not None:
        return await plan_leaving(by.session, by.client, by.payer, validator, amount)
    view = await open_view(by.client)
    own = await view.staked(by.payer.account, by.payer.account)
    value = await view.amount(amount, by.payer.account, by.payer.account)
    facts = {
        "takes_back": Grains(value),
        "bond_afterwards": Grains(max(0, own - value)),
        **view.leaving_facts(),
        "can_go_wrong": RISK_OF_BOND,
    }
    return PlannedCall(TrustStake.unbond(value=value), facts)


@sends
async def withdraw(by: Planning) -> PlannedCall:
    """Plan the withdrawal of free stake."""
    view = await open_view(by.client)
    chunks = await view.look(lambda bound: _chunks(bound, by.payer.account))
    free = sum(value for _, value, until in chunks if until is None)
    waiting = [_waiting_text(view, chunk, value, until) for chunk, value, until in chunks if until is not None]
    facts = {"to": Account(by.payer.account), "frees": Grains(free), **view.present_facts()}
    facts |= {"waits": "\n".join(waiting)} if waiting else {}
    return PlannedCall(TrustStake.withdraw_unbonded(), facts, result=_freed)


def _freed(outcome: Outcome) -> dict[str, Grains]:
    """Return the freed stake. A slash may have reduced it since it was shown."""
    return {"freed": Grains(sum(each.amount for each in outcome.events if isinstance(each, Withdrawn)))}


def _chunks(bound: Bound, who: bytes) -> list[tuple[Unlocking, int, int | None]]:
    """Return each unbonding part, its value after slashes, and the epoch that frees it; None: it is free."""
    stake_now = bound[TrustStake]
    return [
        (chunk, value_now(stake_now, chunk), None if is_free(stake_now, chunk) else kept_until(stake_now, chunk))
        for chunk in stake_now.unlocking[who]
    ]


def _waiting_text(view: StakingView, chunk: Unlocking, value: int, until: int) -> str:
    amount, behind = as_text(Grains(value)), as_text(Account(chunk.validator))
    if until <= view.time.epoch:
        return f"{amount} from behind {behind}: a slash that it may bear waits to be taken or cancelled"
    why = ", when nobody can raise the slash any more that it bore" if until > chunk.until_epoch else ""
    return f"{amount} from behind {behind}: {view.time.epoch_text(until)}{why}"
