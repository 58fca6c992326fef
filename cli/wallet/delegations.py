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
async def delegate(planning: Planning, validator: str, amount: int) -> PlannedCall:
    """Plan a delegation."""
    validator_id = await known_validator(
        planning.session, planning.client, validator, None, is_looked_at=is_looked_at(planning.sending)
    )
    view = await open_view(planning.client)
    present_stake = await view.staked(planning.payer.account, validator_id)
    least_stake = await view.look(lambda state: state[TrustStake].delegation_min)
    commission = await view.look(lambda state: state[TrustStake].commission_of(validator_id))
    facts = {
        "validator": Account(validator_id),
        "amount": Grains(amount),
        "behind_it_afterwards": Grains(present_stake + amount),
        "delegation_min": Grains(least_stake),
        "commission": None if commission is None else percent_text(commission),
        **view.joining_facts(),
        **await view.seat_fact(validator_id),
        "can_go_wrong": RISK_OF_STAKE,
    }
    return PlannedCall(TrustStake.delegate(validator=validator_id, value=amount), facts, moves=amount)


@sends
async def redelegate(planning: Planning, source: str, target: str, amount: int) -> PlannedCall:
    """Plan a redelegation."""
    source_validator = await _chosen_before(planning.session, planning.client, planning.payer, source)
    target_validator = await known_validator(
        planning.session, planning.client, target, None, is_looked_at=is_looked_at(planning.sending)
    )
    view = await open_view(planning.client)
    moved_grains = await view.amount(amount, planning.payer.account, source_validator)
    stake_at_source = await view.staked(planning.payer.account, source_validator)
    stake_at_target = await view.staked(planning.payer.account, target_validator)
    least_stake = await view.look(lambda state: state[TrustStake].delegation_min)
    facts = {
        "from_behind": Account(source_validator),
        "behind": Account(target_validator),
        "amount": Grains(moved_grains),
        "left_behind": Grains(max(0, stake_at_source - moved_grains)),
        "behind_it_afterwards": Grains(stake_at_target + moved_grains),
        "delegation_min": Grains(least_stake),
        **view.joining_facts(),
        **await view.seat_fact(target_validator),
        "can_go_wrong": RISK_OF_MOVING,
    }
    return PlannedCall(
        TrustStake.redelegate(source=source_validator, target=target_validator, value=moved_grains), facts
    )


@sends
async def undelegate(planning: Planning, validator: str, amount: int) -> PlannedCall:
    """Plan the start of undelegating."""
    return await plan_leaving(planning.session, planning.client, planning.payer, validator, amount)


async def plan_leaving(
    session: WalletSession, client: ChainClient, payer: Payer, validator: str, amount: int
) -> PlannedCall:
    """Plan the start of undelegating."""
    validator_id = await _chosen_before(session, client, payer, validator)
    view = await open_view(client)
    present_stake = await view.staked(payer.account, validator_id)
    unstaked_grains = await view.amount(amount, payer.account, validator_id)
    least_stake = await view.look(lambda state: state[TrustStake].delegation_min)
    facts = {
        "validator": Account(validator_id),
        "takes_back": Grains(unstaked_grains),
        "left_behind": Grains(max(0, present_stake - unstaked_grains)),
        "delegation_min": Grains(least_stake),
        **view.leaving_facts(),
        "can_go_wrong": RISK_OF_LEAVING,
    }
    return PlannedCall(TrustStake.undelegate(validator=validator_id, value=unstaked_grains), facts)


def is_looked_at(sending: SendingOptions) -> bool:
    """Return True if a person sees the facts before anything is sent."""
    return sending.dry_run or not sending.is_agreed


async def _chosen_before(session: WalletSession, client: ChainClient, payer: Payer, text: str) -> bytes:
    """Return a validator with the signer's stake. Its chosen name is safe, because the signer chose it before."""
    stake_summary: StakeSummary = await client.query("OgpuApi_stakes", payer.account, at=await client.finalized())
    chosen_before = {stake.validator for stake in stake_summary.stakes}
    return await known_validator(session, client, text, chosen_before, is_looked_at=True)
