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
    who, view = session.account(account), await open_view(client)
    summary: StakeSummary = await client.query("OgpuApi_stakes", who, at=view.at)
    rows = [
        _row("bond" if each.validator == who else "delegation", each.value, each.validator) for each in summary.stakes
    ]
    rows += [_waiting_row(chunk, view.time) for chunk in summary.unlocking]
    rows += [_row(f"held: {held.id}", held.amount) for held in summary.holds if held.id is not STAKE]
    names = await names_of(client, [row["behind"] for row in rows if row["behind"]], view.at)
    for row in rows:
        row["name"] = names.get(row["behind"] or b"") or None
    session.output.rows("Stakes", COLUMNS, rows)
    note(f"it is {view.time.present_text}. Dates assume {view.time.pace_text}")
    for validator in await _idle(view, {each.validator for each in summary.stakes} - {who}):
        note(
            f"{ss58.encode(validator)} cannot be elected: it is no candidate, committed an offence, or has too small "
            "a bond. Your delegation earns nothing there. Move it with `redelegate`, or take it back with `undelegate`"
        )


async def _idle(view: StakingView, behind: Collection[bytes]) -> list[bytes]:
    """Return the validators that cannot be elected."""
    asked = sorted(behind)
    items = (TrustStake.candidates, TrustStake.tombstones, TrustStake.bonds)
    read = [await view.client.read_many(item, asked, at=view.at) for item in items] if asked else [()] * len(items)
    least = await view.look(lambda bound: bound[TrustStake].validator_bond_min)
    return [who for who, *said in zip(asked, *read, strict=True) if _is_idle(*said, least=least)]


def _is_idle(offer: Candidate | None, tombstone: int | None, own: int, *, least: int) -> bool:
    """Return True if a validator cannot be elected: no candidacy, a tombstone, or too small a bond."""
    return offer is None or not may_be_elected(is_tombstoned=tombstone is not None, own_stake=own, least=least)


def _row(kind: str, amount: int, behind: bytes | None = None) -> dict[str, Any]:
    account = None if behind is None else Account(behind)
    empty = {"until_epoch": None, "free": None, "slash_waits": None}
    return {"kind": kind, "behind": account, "amount": Grains(amount), **empty}


def _waiting_row(chunk: WaitingStake, time: ChainTime) -> dict[str, Any]:
    """Return the row of an unbonding part. A pending slash, or one that may grow, keeps it past its epoch."""
    is_over, date = chunk.until_epoch <= time.epoch, time.date_of(chunk.until_epoch)
    free = "now: `withdraw`" if is_over else date
    if chunk.is_held:
        free = "once no slash waits, nor can be raised" + ("" if is_over else f", and not before {date}")
    more = {"until_epoch": chunk.until_epoch, "free": free, "slash_waits": chunk.is_held}
    return {**_row("unstaking", chunk.value, chunk.validator), **more}
