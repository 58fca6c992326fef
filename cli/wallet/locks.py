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
    block_hash = await client.finalized()
    chain_time = await read_time(client, block_hash)
    account_names = [account] if account else list(session.keyring.names())
    if not account_names:
        raise WalletError("there is no stored key. Give an ACCOUNT", code="no_keys")
    rows = []
    for account_name in account_names:
        all_locks = [shown_lock async for shown_lock in _found(client, session.account(account_name), block_hash)]
        if len(all_locks) > LOCKS_SHOWN_MAX:
            note(f"{account_name} has more than {LOCKS_SHOWN_MAX:,} locks. These are the first")
        rows += [
            {"account": account_name, **_row(shown_lock, chain_time)} for shown_lock in all_locks[:LOCKS_SHOWN_MAX]
        ]
    account_column = () if account else ("account",)
    if session.output.as_json:
        session.output.rows("", (*account_column, *TOLD), rows)
    else:
        _tell(session, rows, (*account_column, *SHOWN), chain_time)


def _tell(
    session: WalletSession, rows: list[dict[str, Any]], account_names: tuple[str, ...], chain_time: ChainTime
) -> None:
    """Print a paragraph for each lock, because a table has no room for sentences beside addresses."""
    locked_text = format_amount(sum(row["amount"] for row in rows))
    click.echo(f"{locked_text} {SYMBOL} locked; it is block {chain_time.height:,} now, epoch {chain_time.epoch:,}")
    for row in rows:
        click.echo()
        session.output.facts({account_name: row[account_name] for account_name in account_names})


async def _found(client: ChainClient, account_id: bytes, block_hash: bytes) -> AsyncIterator[Lock]:
    """Yield delegations and their unbonding parts, then the account's own holds; at most one more than are shown."""
    lock_count = 0
    for api_part in ("entrusted", "held"):
        after_key: Any = None
        while lock_count <= LOCKS_SHOWN_MAX:
            locks_page = await client.query(f"LocksApi_{api_part}", account_id, after_key, at=block_hash)
            for shown_lock in locks_page.locks:
                lock_count += 1
                yield shown_lock
            after_key = locks_page.more_behind
            if after_key is None:
                break


def _row(shown_lock: Lock, chain_time: ChainTime) -> dict[str, Any]:
    lock_words, end_block = words_of(shown_lock), shown_lock.until_block
    if shown_lock.until_epoch is not None:
        end_block = chain_time.block_of(shown_lock.until_epoch)
    end_moment = None if end_block is None or end_block <= chain_time.height else moment(chain_time.block_ms(end_block))
    return {
        "reason": str(shown_lock.reason),
        "amount": Grains(shown_lock.amount),
        "what": lock_words.what,
        "case": _case(shown_lock),
        "until": _until(shown_lock, chain_time, end_moment),
        "about": None if end_moment is None else end_moment.isoformat(timespec="seconds"),
        "until_epoch": shown_lock.until_epoch,
        "until_block": shown_lock.until_block,
        "at_most": Grains(shown_lock.at_most),
        "taken_by": lock_words.taken_by,
    }


def _case(shown_lock: Lock) -> Any:
    if shown_lock.reason in _ACCOUNTS:
        return Account(shown_lock.case)
    return int.from_bytes(shown_lock.case, "big") if shown_lock.reason is SERVICE_DEPOSIT else shown_lock.case


def _until(shown_lock: Lock, chain_time: ChainTime, end_moment: datetime | None) -> str:
    """Return the height or epoch of a lock's end with an estimated date, and the event that ends it."""
    if shown_lock.until_epoch is not None:
        queue_place, present_epoch = f"epoch {shown_lock.until_epoch:,}", f"it is {chain_time.epoch:,} now"
    elif shown_lock.until_block is not None:
        queue_place, present_epoch = f"block {shown_lock.until_block:,}", f"it is {chain_time.height:,} now"
    else:
        return end_of(shown_lock)
    moment_text = "reached" if end_moment is None else f"about {end_moment.strftime(DATE_FORMAT)}"
    return f"{moment_text} ({queue_place}; {present_epoch}): {end_of(shown_lock)}"
