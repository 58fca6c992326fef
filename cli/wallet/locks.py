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
"""The most locks shown of an account."""
SHOWN = ("amount", "what", "reason", "case", "until", "at_most", "taken_by")
TOLD = (*SHOWN, "about", "until_epoch", "until_block")
_ACCOUNTS = (STAKE, PROFILE, PROVIDER_DEPOSIT)


@reads
async def locks(session: WalletSession, client: ChainClient, account: str | None) -> None:
    """Print an account's locked money."""
    block_hash = await client.finalized()
    chain_time = await read_time(client, block_hash)
    account_names = [account] if account else list(session.keyring.names())
    if not account_names:
        raise WalletError("there is no stored key. Give an ACCOUNT", code="no_keys")
    rows = []
    for account_name in account_names:
        found = [lock async for lock in _found(client, session.account(account_name), block_hash)]
        if len(found) > LOCKS_SHOWN_MAX:
            note(f"{account_name} has more than {LOCKS_SHOWN_MAX:,} locks. These are the first")
        rows += [{"account": account_name, **_row(lock, chain_time)} for lock in found[:LOCKS_SHOWN_MAX]]
    account_column = () if account else ("account",)
    if session.output.as_json:
        session.output.rows("", (*account_column, *TOLD), rows)
    else:
        _tell(session, rows, (*account_column, *SHOWN), chain_time)


def _tell(session: WalletSession, rows: list[dict[str, Any]], columns: tuple[str, ...], chain_time: ChainTime) -> None:
    """Print a paragraph for each lock, because a table has no room for sentences beside addresses."""
    locked_text = format_amount(sum(row["amount"] for row in rows))
    click.echo(f"{locked_text} {SYMBOL} locked; it is block {chain_time.height:,} now, epoch {chain_time.epoch:,}")
    for row in rows:
        click.echo()
        session.output.facts({column: row[column] for column in columns})


async def _found(client: ChainClient, account: bytes, block_hash: bytes) -> AsyncIterator[Lock]:
    """Yield delegations and their unbonding parts, then the account's own holds; at most one more than are shown."""
    lock_count = 0
    for part in ("entrusted", "held"):
        after_key: Any = None
        # A node that always announces one more page must not keep the command reading.
        while lock_count <= LOCKS_SHOWN_MAX:
            locks_page = await client.query(f"LocksApi_{part}", account, after_key, at=block_hash)
            for lock in locks_page.locks:
                lock_count += 1
                yield lock
            after_key = locks_page.more_behind
            if after_key is None:
                break


def _row(lock: Lock, chain_time: ChainTime) -> dict[str, Any]:
    lock_words = words_of(lock)
    end_block = lock.until_block if lock.until_epoch is None else chain_time.block_of(lock.until_epoch)
    end_date = None if end_block is None or end_block <= chain_time.height else moment(chain_time.block_ms(end_block))
    return {
        "reason": str(lock.reason),
        "amount": Grains(lock.amount),
        "what": lock_words.what,
        "case": _case(lock),
        "until": _until(lock, chain_time, end_date),
        "about": None if end_date is None else end_date.isoformat(timespec="seconds"),
        "until_epoch": lock.until_epoch,
        "until_block": lock.until_block,
        "at_most": Grains(lock.at_most),
        "taken_by": lock_words.taken_by,
    }


def _case(lock: Lock) -> Any:
    if lock.reason in _ACCOUNTS:
        return Account(lock.case)
    return int.from_bytes(lock.case, "big") if lock.reason is SERVICE_DEPOSIT else lock.case


def _until(lock: Lock, chain_time: ChainTime, end_date: datetime | None) -> str:
    """Return the height or epoch of a lock's end with an estimated date, and the event that ends it."""
    if lock.until_epoch is not None:
        end_block, current_time = f"epoch {lock.until_epoch:,}", f"it is {chain_time.epoch:,} now"
    elif lock.until_block is not None:
        end_block, current_time = f"block {lock.until_block:,}", f"it is {chain_time.height:,} now"
    else:
        return end_of(lock)
    about = "reached" if end_date is None else f"about {end_date.strftime(DATE_FORMAT)}"
    return f"{about} ({end_block}; {current_time}): {end_of(lock)}"
