"""Rewards of stake: show, claim or compound them."""

from __future__ import annotations

import click

from cli.calls import PlannedCall, SendingOptions, make
from cli.output import Account, as_text
from cli.session import WalletSession, note
from cli.wallet.staking_facts import RISK_OF_STAKE, StakingView, open_view
from cli.wallet.validator_names import names_of
from runtime.interface.staking_api import PendingReward
from runtime.pallets.staking.staking_events import Rewarded
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.utility import Utility
from wallet.amounts import Grains
from wallet.client import ChainClient, Outcome, Payer
from wallet.errors import WalletError

CLAIMS_PER_BATCH = 32


def rewards(session: WalletSession, account: str, claim: bool, compound: bool, sending: SendingOptions) -> None:
    """Print unpaid rewards, or claim or compound them."""
    if claim and compound:
        raise click.UsageError("--claim and --compound exclude each other. Give one of them")

    async def show(client: ChainClient) -> None:
        view = await open_view(client)
        pending_rewards = await _unpaid(view, session.account(account))
        validator_names = await names_of(client, [reward.validator for reward in pending_rewards], view.at)
        rows = [
            {
                "validator": Account(reward.validator),
                "name": validator_names.get(reward.validator) or None,
                "amount": Grains(reward.amount),
            }
            for reward in pending_rewards
        ]
        session.output.rows("Unpaid rewards", ("validator", "name", "amount"), rows)
        note(_next_turn(view))

    async def plan(client: ChainClient, payer: Payer) -> PlannedCall:
        view = await open_view(client)
        pending_rewards = await _unpaid(view, payer.account)
        if not pending_rewards:
            raise WalletError(f"there is nothing to claim: {_next_turn(view)}", code="nothing_to_claim")
        claimed_rewards, later_rewards = pending_rewards[:CLAIMS_PER_BATCH], pending_rewards[CLAIMS_PER_BATCH:]
        method = TrustStake.compound if compound else TrustStake.claim
        calls = [method(validator=reward.validator) for reward in claimed_rewards]
        facts = {
            "to": Account(payer.account),
            "claims": Grains(sum(reward.amount for reward in claimed_rewards)),
            "earned_with": "\n".join(
                f"{as_text(Account(reward.validator))}: {as_text(Grains(reward.amount))}" for reward in claimed_rewards
            ),
            **(
                {"left_for_a_second_time": Grains(sum(reward.amount for reward in later_rewards))}
                if later_rewards
                else {}
            ),
            **(view.joining_facts() if compound else view.present_facts()),
            **({"can_go_wrong": RISK_OF_STAKE} if compound else {}),
        }
        call = calls[0] if len(calls) == 1 else Utility.batch_all(calls=tuple(calls))
        return PlannedCall(call, facts, result=_claimed)

    if claim or compound:
        make(session, account, sending, plan)
    else:
        session.run(show)


def _claimed(outcome: Outcome) -> dict[str, Grains]:
    """Return the paid rewards. An era may have ended since they were shown."""
    return {"claimed": Grains(sum(event.amount for event in outcome.events if isinstance(event, Rewarded)))}


async def _unpaid(view: StakingView, account: bytes) -> tuple[PendingReward, ...]:
    all_rewards: tuple[PendingReward, ...] = await view.client.query("OgpuApi_pending_rewards", account, at=view.at)
    return all_rewards


def _next_turn(view: StakingView) -> str:
    """Return the time of the next payment, in words."""
    following = view.time.era_text(view.time.era + 1)
    return (
        f"it is {view.time.present_text}. The chain pays this era when {following} begins. Stake that joined in this "
        "era earns from then on"
    )
