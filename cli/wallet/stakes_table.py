"""`stakes`: an account's bond, delegations and unbonding stake with its release."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cli.chain_time import ChainTime
from cli.output import Account
from cli.session import WalletSession, note, reads
from cli.wallet.staking_facts import StakingView, open_view
from cli.wallet.validator_names import names_of
from runtime.cryptography import ss58
from runtime.interface.staking_api import StakeSummary, WaitingStake
from runtime.pallets.staking.stakers import STAKE, Candidate, may_be_elected
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.amounts import Grains
from wallet.client import ChainClient

COLUMNS = ("kind", "behind", "name", "amount", "until_epoch", "free", "slash_waits")


@reads
async def show_stakes(session: WalletSession, client: ChainClient, account: str) -> None:
    """Print an account's stakes."""
    account_id, view = session.account(account), await open_view(client)
    stake_summary: StakeSummary = await client.query("OgpuApi_stakes", account_id, at=view.at)
    rows = [
        _row("bond" if stake.validator == account_id else "delegation", stake.value, stake.validator)
        for stake in stake_summary.stakes
    ]
    rows += [_waiting_row(waiting_stake, view.time) for waiting_stake in stake_summary.unlocking]
    rows += [_row(f"held: {hold.id}", hold.amount) for hold in stake_summary.holds if hold.id is not STAKE]
    validator_names = await names_of(client, [row["behind"] for row in rows if row["behind"]], view.at)
    for row in rows:
        row["name"] = validator_names.get(row["behind"] or b"") or None
    session.output.rows("Stakes", COLUMNS, rows)
    note(f"it is {view.time.present_text}. Dates assume {view.time.pace_text}")
    for validator in await _idle(view, {stake.validator for stake in stake_summary.stakes} - {account_id}):
        note(
            f"{ss58.encode(validator)} cannot be elected: it is no candidate, committed an offence, or has too small "
            "a bond. Your delegation earns nothing there. Move it with `redelegate`, or take it back with `undelegate`"
        )


async def _idle(view: StakingView, validators_behind: Collection[bytes]) -> list[bytes]:
    """Return the validators that cannot be elected."""
    stashes = sorted(validators_behind)
    items = (TrustStake.candidates, TrustStake.tombstones, TrustStake.bonds)
    columns = (
        [await view.client.read_many(item, stashes, at=view.at) for item in items] if stashes else [()] * len(items)
    )
    least_bond = await view.look(lambda state: state[TrustStake].validator_bond_min)
    return [
        stash
        for stash, *candidacy in zip(stashes, *columns, strict=True)
        if _is_idle(*candidacy, least_bond=least_bond)
    ]


def _is_idle(candidate: Candidate | None, tombstone: int | None, own_stake: int, *, least_bond: int) -> bool:
    """Return True if a validator cannot be elected: no candidacy, a tombstone, or too small a bond."""
    return candidate is None or not may_be_elected(
        is_tombstoned=tombstone is not None, own_stake=own_stake, least=least_bond
    )


def _row(kind: str, amount_grains: int, validator_id: bytes | None = None) -> dict[str, Any]:
    validators_behind = None if validator_id is None else Account(validator_id)
    empty = {"until_epoch": None, "free": None, "slash_waits": None}
    return {"kind": kind, "behind": validators_behind, "amount": Grains(amount_grains), **empty}


def _waiting_row(waiting_stake: WaitingStake, chain_time: ChainTime) -> dict[str, Any]:
    """Return the row of an unbonding part. A pending slash, or one that may grow, keeps it past its epoch."""
    is_over, free_date = waiting_stake.until_epoch <= chain_time.epoch, chain_time.date_of(waiting_stake.until_epoch)
    free_text = "now: `withdraw`" if is_over else free_date
    if waiting_stake.is_held:
        free_text = "once no slash waits, nor can be raised" + ("" if is_over else f", and not before {free_date}")
    columns = {"until_epoch": waiting_stake.until_epoch, "free": free_text, "slash_waits": waiting_stake.is_held}
    return {**_row("unstaking", waiting_stake.value, waiting_stake.validator), **columns}
