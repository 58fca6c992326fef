"""Delegations: make, move and end them."""

from __future__ import annotations

from cli.calls import PlannedCall, Planning, SendingOptions, sends
from cli.output import Account
from cli.session import WalletSession
from cli.wallet.staking_facts import RISK_OF_LEAVING, RISK_OF_MOVING, RISK_OF_STAKE, open_view
from cli.wallet.validator_names import known_validator
from runtime.interface.staking_api import StakeSummary
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.amounts import Grains
from wallet.client import ChainClient, Payer
from wallet.refusals.refused_call import percent_text


@sends
async def delegate(by: Planning, validator: str, amount: int) -> PlannedCall:
    """Plan a delegation."""
    behind = await known_validator(by.session, by.client, validator, None, is_looked_at=is_looked_at(by.sending))
    view = await open_view(by.client)
    there = await view.staked(by.payer.account, behind)
    least = await view.look(lambda bound: bound[TrustStake].delegation_min)
    commission = await view.look(lambda bound: bound[TrustStake].commission_of(behind))
    facts = {
        "validator": Account(behind),
        "amount": Grains(amount),
        "behind_it_afterwards": Grains(there + amount),
        "delegation_min": Grains(least),
        "commission": None if commission is None else percent_text(commission),
        **view.joining_facts(),
        **await view.seat_fact(behind),
        "can_go_wrong": RISK_OF_STAKE,
    }
    return PlannedCall(TrustStake.delegate(validator=behind, value=amount), facts, moves=amount)


@sends
async def redelegate(by: Planning, source: str, target: str, amount: int) -> PlannedCall:
    """Plan a redelegation."""
    here = await _chosen_before(by.session, by.client, by.payer, source)
    there = await known_validator(by.session, by.client, target, None, is_looked_at=is_looked_at(by.sending))
    view = await open_view(by.client)
    value = await view.amount(amount, by.payer.account, here)
    staked = [await view.staked(by.payer.account, each) for each in (here, there)]
    least = await view.look(lambda bound: bound[TrustStake].delegation_min)
    facts = {
        "from_behind": Account(here),
        "behind": Account(there),
        "amount": Grains(value),
        "left_behind": Grains(max(0, staked[0] - value)),
        "behind_it_afterwards": Grains(staked[1] + value),
        "delegation_min": Grains(least),
        **view.joining_facts(),
        **await view.seat_fact(there),
        "can_go_wrong": RISK_OF_MOVING,
    }
    return PlannedCall(TrustStake.redelegate(source=here, target=there, value=value), facts)


@sends
async def undelegate(by: Planning, validator: str, amount: int) -> PlannedCall:
    """Plan the start of undelegating."""
    return await plan_leaving(by.session, by.client, by.payer, validator, amount)


async def plan_leaving(
    session: WalletSession, client: ChainClient, payer: Payer, validator: str, amount: int
) -> PlannedCall:
    """Plan the start of undelegating."""
    behind = await _chosen_before(session, client, payer, validator)
    view = await open_view(client)
    there, value = await view.staked(payer.account, behind), await view.amount(amount, payer.account, behind)
    least = await view.look(lambda bound: bound[TrustStake].delegation_min)
    facts = {
        "validator": Account(behind),
        "takes_back": Grains(value),
        "left_behind": Grains(max(0, there - value)),
        "delegation_min": Grains(least),
        **view.leaving_facts(),
        "can_go_wrong": RISK_OF_LEAVING,
    }
    return PlannedCall(TrustStake.undelegate(validator=behind, value=value), facts)


def is_looked_at(sending: SendingOptions) -> bool:
    """Return True if a person sees the facts before anything is sent."""
    return sending.dry_run or not sending.is_agreed


async def _chosen_before(session: WalletSession, client: ChainClient, payer: Payer, text: str) -> bytes:
    """Return a validator with the signer's stake. Its chosen name is safe, because the signer chose it before."""
    summary: StakeSummary = await client.query("OgpuApi_stakes", payer.account, at=await client.finalized())
    among = {stake.validator for stake in summary.stakes}
    return await known_validator(session, client, text, among, is_looked_at=True)
