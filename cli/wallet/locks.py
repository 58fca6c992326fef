"""`locks`: an account's locked money, with its reason, its end, its risk and the greatest loss."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import click

from cli.chain_time import DATE_FORMAT, ChainTime, moment, read_time
from cli.output import Account
from cli.session import WalletSession, note, reads
from cli.wallet.lock_words import end_of, words_of
from gpu_tasks.market.devices.records import PROVIDER_DEPOSIT
from gpu_tasks.market.inference.services import SERVICE_DEPOSIT
from runtime.interface.locks_api import Lock
from runtime.pallets.staking.stakers import PROFILE, STAKE
from wallet.amounts import SYMBOL, Grains, format_amount
from wallet.client import ChainClient
from wallet.errors import WalletError

LOCKS_SHOWN_MAX = 4_096
"""The most locks that are shown of an account."""
SHOWN = ("amount", "what", "reason", "case", "until", "at_most", "taken_by")
TOLD = (*SHOWN, "about", "until_epoch", "until_block")
_ACCOUNTS = (STAKE, PROFILE, PROVIDER_DEPOSIT)


@reads
async def locks(session: WalletSession, client: ChainClient, account: str | None) -> None:
    """Print an account's locked money."""
    at = await client.finalized()
    time = await read_time(client, at)
    names = [account] if account else list(session.keyring.names())
    if not names:
        raise WalletError("there is no stored key. Give an ACCOUNT", code="no_keys")
    rows = []
    for name in names:
        found = [lock async for lock in _found(client, session.account(name), at)]
        if len(found) > LOCKS_SHOWN_MAX:
            note(f"{name} has more than {LOCKS_SHOWN_MAX:,} locks. These are the first")
        rows += [{"account": name, **_row(lock, time)} for lock in found[:LOCKS_SHOWN_MAX]]
    whose = () if account else ("account",)
    if session.output.as_json:
        session.output.rows("", (*whose, *TOLD), rows)
    else:
        _tell(session, rows, (*whose, *SHOWN), time)


def _tell(session: WalletSession, rows: list[dict[str, Any]], names: tuple[str, ...], time: ChainTime) -> None:
    """Print a paragraph for each lock, because a table has no room for sentences beside addresses."""
    locked = format_amount(sum(row["amount"] for row in rows))
    click.echo(f"{locked} {SYMBOL} locked; it is block {time.height:,} now, epoch {time.epoch:,}")
    for row in rows:
        click.echo()
        session.output.facts({name: row[name] for name in names})


async def _found(client: ChainClient, who: bytes, at: bytes) -> AsyncIterator[Lock]:
    """Yield delegations and their unbonding parts, then the account's own holds; at most one more than are shown."""
    count = 0
    for part in ("entrusted", "held"):
        behind: Any = None
        while count <= LOCKS_SHOWN_MAX:
            page = await client.query(f"LocksApi_{part}", who, behind, at=at)
            for lock in page.locks:
                count += 1
                yield lock
            behind = page.more_behind
            if behind is None:
                break


def _row(lock: Lock, time: ChainTime) -> dict[str, Any]:
    words, block = words_of(lock), lock.until_block
    if lock.until_epoch is not None:
        block = time.block_of(lock.until_epoch)
    about = None if block is None or block <= time.height else moment(time.block_ms(block))
    return {
        "reason": str(lock.reason),
        "amount": Grains(lock.amount),
        "what": words.what,
        "case": _case(lock),
        "until": _until(lock, time, about),
        "about": None if about is None else about.isoformat(timespec="seconds"),
        "until_epoch": lock.until_epoch,
        "until_block": lock.until_block,
        "at_most": Grains(lock.at_most),
        "taken_by": words.taken_by,
    }


def _case(lock: Lock) -> Any:
    if lock.reason in _ACCOUNTS:
        return Account(lock.case)
    return int.from_bytes(lock.case, "big") if lock.reason is SERVICE_DEPOSIT else lock.case


def _until(lock: Lock, time: ChainTime, about: datetime | None) -> str:
    """Return the height or epoch of a lock's end with an estimated date, and the event that ends it."""
    if lock.until_epoch is not None:
        place, now = f"epoch {lock.until_epoch:,}", f"it is {time.epoch:,} now"
    elif lock.until_block is not None:
        place, now = f"block {lock.until_block:,}", f"it is {time.height:,} now"
    else:
        return end_of(lock)
    when = "reached" if about is None else f"about {about.strftime(DATE_FORMAT)}"
    return f"{when} ({place}; {now}): {end_of(lock)}"
