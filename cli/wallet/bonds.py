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
    least_bond = await view.look(lambda state: state[TrustStake].validator_bond_min)
    call = (TrustStake.bond_extra if own_stake else TrustStake.bond)(value=amount)
    facts = {
        "amount": Grains(amount),
        "bond_afterwards": Grains(own_stake + amount),
        "validator_bond_min": Grains(least_bond),
        **view.joining_facts(),
        "can_go_wrong": RISK_OF_BOND,
    }
    return PlannedCall(call, facts, moves=amount)


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
    unbonding_chunks = await view.look(lambda state: _chunks(state, planning.payer.account))
    free_grains = sum(chunk_grains for _, chunk_grains, until_epoch in unbonding_chunks if until_epoch is None)
    waiting_texts = [
        _waiting_text(view, chunk, chunk_grains, until_epoch)
        for chunk, chunk_grains, until_epoch in unbonding_chunks
        if until_epoch is not None
    ]
    facts = {"to": Account(planning.payer.account), "frees": Grains(free_grains), **view.present_facts()}
    facts |= {"waits": "\n".join(waiting_texts)} if waiting_texts else {}
    return PlannedCall(TrustStake.withdraw_unbonded(), facts, result=_freed)


def _freed(outcome: Outcome) -> dict[str, Grains]:
    """Return the freed stake. A slash may have reduced it since it was shown."""
    return {"freed": Grains(sum(event.amount for event in outcome.events if isinstance(event, Withdrawn)))}


def _chunks(state: Bound, account: bytes) -> list[tuple[Unlocking, int, int | None]]:
    """Return each unbonding part, its value after slashes, and the epoch that frees it; None: it is free."""
    trust_stake = state[TrustStake]
    return [
        (chunk, value_now(trust_stake, chunk), None if is_free(trust_stake, chunk) else kept_until(trust_stake, chunk))
        for chunk in trust_stake.unlocking[account]
    ]


def _waiting_text(view: StakingView, chunk: Unlocking, chunk_grains: int, until_epoch: int) -> str:
    amount, validator = as_text(Grains(chunk_grains)), as_text(Account(chunk.validator))
    if until_epoch <= view.time.epoch:
        return f"{amount} from behind {validator}: a slash that it may bear waits to be taken or cancelled"
    delay_reason = ", when nobody can raise the slash any more that it bore" if until_epoch > chunk.until_epoch else ""
    return f"{amount} from behind {validator}: {view.time.epoch_text(until_epoch)}{delay_reason}"
