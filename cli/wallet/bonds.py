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
async def stake(planning: Planning, amount: int) -> PlannedCall:
    """Plan a bond."""
    view = await open_view(planning.client)
    own_stake = await view.staked(planning.payer.account, planning.payer.account)
    bond_minimum = await view.look(lambda bound_state: bound_state[TrustStake].validator_bond_min)
    planned_call = (TrustStake.bond_extra if own_stake else TrustStake.bond)(value=amount)
    facts = {
        "amount": Grains(amount),
        "bond_afterwards": Grains(own_stake + amount),
        "validator_bond_min": Grains(bond_minimum),
        **view.joining_facts(),
        "can_go_wrong": RISK_OF_BOND,
    }
    return PlannedCall(planned_call, facts, moves=amount)


@sends
async def unstake(planning: Planning, amount: int, validator: str | None) -> PlannedCall:
    """Plan the start of unbonding."""
    if validator is not None:
        return await plan_leaving(planning.session, planning.client, planning.payer, validator, amount)
    view = await open_view(planning.client)
    own_stake = await view.staked(planning.payer.account, planning.payer.account)
    unstaked_grains = await view.amount(amount, planning.payer.account, planning.payer.account)
    facts = {
        "takes_back": Grains(unstaked_grains),
        "bond_afterwards": Grains(max(0, own_stake - unstaked_grains)),
        **view.leaving_facts(),
        "can_go_wrong": RISK_OF_BOND,
    }
    return PlannedCall(TrustStake.unbond(value=unstaked_grains), facts)


@sends
async def withdraw(planning: Planning) -> PlannedCall:
    """Plan the withdrawal of free stake."""
    view = await open_view(planning.client)
    unbonding_chunks = await view.look(lambda bound_state: _chunks(bound_state, planning.payer.account))
    free_grains = sum(chunk_grains for _, chunk_grains, until_text in unbonding_chunks if until_text is None)
    waiting_texts = [
        _waiting_text(view, unbonding_chunk, chunk_grains, until_text)
        for unbonding_chunk, chunk_grains, until_text in unbonding_chunks
        if until_text is not None
    ]
    facts = {"to": Account(planning.payer.account), "frees": Grains(free_grains), **view.present_facts()}
    facts |= {"waits": "\n".join(waiting_texts)} if waiting_texts else {}
    return PlannedCall(TrustStake.withdraw_unbonded(), facts, result=_freed)


def _freed(outcome: Outcome) -> dict[str, Grains]:
    """Return the freed stake. A slash may have reduced it since it was shown."""
    return {
        "freed": Grains(
            sum(outcome_event.amount for outcome_event in outcome.events if isinstance(outcome_event, Withdrawn))
        )
    }


def _chunks(bound_state: Bound, account_id: bytes) -> list[tuple[Unlocking, int, int | None]]:
    """Return each unbonding part, its value after slashes, and the epoch that frees it; None: it is free."""
    stake_now = bound_state[TrustStake]
    return [
        (
            unbonding_chunk,
            value_now(stake_now, unbonding_chunk),
            None if is_free(stake_now, unbonding_chunk) else kept_until(stake_now, unbonding_chunk),
        )
        for unbonding_chunk in stake_now.unlocking[account_id]
    ]


def _waiting_text(view: StakingView, unbonding_chunk: Unlocking, chunk_grains: int, until_text: int) -> str:
    amount_text, validator_text = as_text(Grains(chunk_grains)), as_text(Account(unbonding_chunk.validator))
    if until_text <= view.time.epoch:
        return f"{amount_text} from behind {validator_text}: a slash that it may bear waits to be taken or cancelled"
    delay_reason = (
        ", when nobody can raise the slash any more that it bore" if until_text > unbonding_chunk.until_epoch else ""
    )
    return f"{amount_text} from behind {validator_text}: {view.time.epoch_text(until_text)}{delay_reason}"
