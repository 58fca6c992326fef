"""Stake: bond, delegate, take back, rewards, and who validates."""

from __future__ import annotations

from typing import Any

import click

from runtime.interface.staking_api import PendingReward, StakeSummary, ValidatorSummary
from runtime.pallets.staking.stakers import STAKE
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.utility import Utility
from wallet.client import ChainClient, Payer
from wallet.commands.making import PlannedCall, SendingOptions, make, sending_options
from wallet.commands.options import AMOUNT, from_option
from wallet.errors import WalletError
from wallet.output import Account, Grains
from wallet.session import WalletSession

CLAIMS_PER_BATCH = 32
PPM_PER_PERCENT = 10_000


@click.command()
@click.argument("amount", type=AMOUNT)
@from_option
@sending_options
@click.pass_obj
def stake(session: WalletSession, amount: int, sender: str, sending: SendingOptions) -> None:
    """Bond AMOUNT oGPU of your own, the first step to validate and to mine; adds to a bond that is there."""

    async def plan(client: ChainClient, payer: Payer) -> PlannedCall:
        own = await client.read(TrustStake.bonds, payer.account)
        call = (TrustStake.bond_extra if own else TrustStake.bond)(value=amount)
        return PlannedCall(call, {"amount": Grains(amount)}, moves=amount)

    make(session, sender, sending, plan)


@click.command()
@click.argument("validator")
@click.argument("amount", type=AMOUNT)
@from_option
@sending_options
@click.pass_obj
def delegate(session: WalletSession, validator: str, amount: int, sender: str, sending: SendingOptions) -> None:
    """Put AMOUNT oGPU behind a validator, to share its rewards and its slashes."""

    async def plan(_client: ChainClient, _payer: Payer) -> PlannedCall:
        behind = session.account(validator)
        call = TrustStake.delegate(validator=behind, value=amount)
        return PlannedCall(call, {"validator": Account(behind), "amount": Grains(amount)}, moves=amount)

    make(session, sender, sending, plan)


@click.command()
@click.argument("source")
@click.argument("target")
@click.argument("amount", type=AMOUNT)
@from_option
@sending_options
@click.pass_obj
def redelegate(
    session: WalletSession, source: str, target: str, amount: int, sender: str, sending: SendingOptions
) -> None:
    """Put AMOUNT oGPU from behind a validator behind another, without waiting; for a time it answers for both."""

    async def plan(_client: ChainClient, _payer: Payer) -> PlannedCall:
        here, there = session.account(source), session.account(target)
        call = TrustStake.redelegate(source=here, target=there, value=amount)
        return PlannedCall(call, {"from_behind": Account(here), "behind": Account(there), "amount": Grains(amount)})

    make(session, sender, sending, plan)


@click.command()
@click.argument("amount", type=AMOUNT)
@click.option("--validator", help="Take back from behind this validator, instead of from your own bond.")
@from_option
@sending_options
@click.pass_obj
def unstake(session: WalletSession, amount: int, validator: str | None, sender: str, sending: SendingOptions) -> None:
    """Begin to take AMOUNT oGPU out; it is free after the unbonding time, with `withdraw`."""

    async def plan(_client: ChainClient, _payer: Payer) -> PlannedCall:
        if validator is None:
            return PlannedCall(TrustStake.unbond(value=amount), {"takes_back": Grains(amount)})
        behind = session.account(validator)
        facts = {"validator": Account(behind), "takes_back": Grains(amount)}
        return PlannedCall(TrustStake.undelegate(validator=behind, value=amount), facts)

    make(session, sender, sending, plan)


@click.command()
@from_option
@sending_options
@click.pass_obj
def withdraw(session: WalletSession, sender: str, sending: SendingOptions) -> None:
    """Free everything that was unstaked long enough ago."""

    async def plan(_client: ChainClient, _payer: Payer) -> PlannedCall:
        return PlannedCall(TrustStake.withdraw_unbonded())

    make(session, sender, sending, plan)


@click.command("validate")
@click.argument("session_key")
@click.argument("vrf_key")
@click.argument("provider_key")
@click.option("--commission", type=click.IntRange(0, 100), default=5, show_default=True, help="Per cent.")
@from_option
@sending_options
@click.pass_obj
def offer(
    session: WalletSession,
    session_key: str,
    vrf_key: str,
    provider_key: str,
    commission: int,
    sender: str,
    sending: SendingOptions,
) -> None:
    """Offer to validate and to mine, with these three public keys (0x and hex digits)."""

    async def plan(_client: ChainClient, _payer: Payer) -> PlannedCall:
        keys = [session.account(text) for text in (session_key, vrf_key, provider_key)]
        call = TrustStake.validate(
            session_key=keys[0], vrf_key=keys[1], provider_key=keys[2], commission_ppm=commission * PPM_PER_PERCENT
        )
        shown = zip(("session_key", "vrf_key", "provider_key"), keys, strict=True)
        return PlannedCall(call, {**dict(shown), "commission": f"{commission} %"})

    make(session, sender, sending, plan)


@click.command()
@from_option
@sending_options
@click.pass_obj
def chill(session: WalletSession, sender: str, sending: SendingOptions) -> None:
    """Stop to offer to validate and to mine."""

    async def plan(_client: ChainClient, _payer: Payer) -> PlannedCall:
        return PlannedCall(TrustStake.chill())

    make(session, sender, sending, plan)


@click.command("stakes")
@click.argument("account")
@click.pass_obj
def show_stakes(session: WalletSession, account: str) -> None:
    """Show what an account has bonded, delegated, unstaked and held."""

    async def show(client: ChainClient) -> None:
        who = session.account(account)
        summary: StakeSummary = await client.query("OgpuApi_stakes", who, at=await client.finalized())
        rows = [
            _stake_row("bond" if stake.validator == who else "delegation", stake.validator, stake.value)
            for stake in summary.stakes
        ]
        rows += [
            _stake_row("unstaking", chunk.validator, chunk.value, chunk.until_epoch) for chunk in summary.unlocking
        ]
        rows += [_stake_row(f"held: {held.id}", None, held.amount) for held in summary.holds if held.id is not STAKE]
        session.output.rows("Stakes", ("kind", "behind", "amount", "until_epoch"), rows)

    session.run(show)


def _stake_row(kind: str, behind: bytes | None, amount: int, until_epoch: int | None = None) -> dict[str, Any]:
    account = None if behind is None else Account(behind)
    return {"kind": kind, "behind": account, "amount": Grains(amount), "until_epoch": until_epoch}


@click.command()
@click.argument("account")
@click.option("--claim", is_flag=True, help="Pull them: the account signs.")
@click.option("--compound", is_flag=True, help="Pull them, and put each behind the validator that it was earned with.")
@sending_options
@click.pass_obj
def rewards(session: WalletSession, account: str, claim: bool, compound: bool, sending: SendingOptions) -> None:
    """Show what an account has earned and not claimed, or claim it."""

    async def unpaid(client: ChainClient) -> tuple[PendingReward, ...]:
        found: tuple[PendingReward, ...] = await client.query(
            "OgpuApi_pending_rewards", session.account(account), at=await client.finalized()
        )
        return found

    async def show(client: ChainClient) -> None:
        rows = [
            {"validator": Account(reward.validator), "amount": Grains(reward.amount)} for reward in await unpaid(client)
        ]
        session.output.rows("Unpaid rewards", ("validator", "amount"), rows)

    async def plan(client: ChainClient, _payer: Payer) -> PlannedCall:
        pending = await unpaid(client)
        if not pending:
            raise WalletError("there is nothing to claim; rewards appear when an era has ended")
        paid = pending[:CLAIMS_PER_BATCH]
        pull = TrustStake.compound if compound else TrustStake.claim
        batch = [pull(validator=reward.validator) for reward in paid]
        facts = {"to": Account(session.account(account)), "claims": Grains(sum(reward.amount for reward in paid))}
        return PlannedCall(batch[0] if len(batch) == 1 else Utility.batch_all(calls=tuple(batch)), facts)

    if claim or compound:
        make(session, account, sending, plan)
    else:
        session.run(show)


@click.command()
@click.pass_obj
def validators(session: WalletSession) -> None:
    """Show everybody who offers to validate and to mine."""

    async def show(client: ChainClient) -> None:
        table: tuple[ValidatorSummary, ...] = await client.query("OgpuApi_candidates", at=await client.finalized())
        rows = [
            {
                "stash": Account(candidate.stash),
                "name": candidate.name.decode(errors="replace"),
                "in_office": candidate.in_office,
                "elected": candidate.elected,
                "own": Grains(candidate.own),
                "total": Grains(candidate.total),
                "delegators": candidate.delegators,
                "commission": f"{candidate.commission_ppm / PPM_PER_PERCENT:g} %",
                "points": candidate.points,
                "tombstoned": candidate.tombstoned,
            }
            for candidate in sorted(table, key=lambda candidate: -candidate.total)
        ]
        columns = (
            "stash", "name", "in_office", "elected", "own", "total", "delegators", "commission", "points", "tombstoned",
        )  # fmt: skip
        session.output.rows("Validators", columns, rows)

    session.run(show)
