"""What is locked of an account: for what, until when, what could take it, and how much of it at most."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from gpu_tasks.market.devices.records import PROVIDER_DEPOSIT
from gpu_tasks.market.inference.services import SERVICE_DEPOSIT
from runtime.frame.runtime import Runtime, constant_value
from runtime.interface.locks import Lock
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.stakers import PROFILE, STAKE
from runtime.pallets.system import System
from runtime.pallets.timestamp import Timestamp
from wallet.amounts import SYMBOL, format_amount
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.output import Account, Grains
from wallet.session import WalletSession, note

LOCKS_SHOWN_MAX = 4_096
"""Of an account; whoever has more is told so."""
SHOWN = ("amount", "what", "case", "until", "at_most", "taken_by")
TOLD = ("reason", *SHOWN, "about", "until_epoch", "until_block")
_ACCOUNTS = (STAKE, PROFILE, PROVIDER_DEPOSIT)


@dataclass(frozen=True, slots=True)
class ChainClock:
    """When it is on the chain, and how fast its blocks come at best."""

    block: int
    now_ms: int
    epoch_blocks: int
    slot_ms: int

    @property
    def epoch(self) -> int:
        """The epoch of the block."""
        return max(self.block - 1, 0) // self.epoch_blocks

    def when(self, block: int) -> datetime | None:
        """About when a block comes: later where slots stay empty; None for one that is there."""
        left = block - self.block
        if left <= 0:
            return None
        try:
            return datetime.fromtimestamp(self.now_ms / 1_000, UTC) + timedelta(milliseconds=left * self.slot_ms)
        except (OverflowError, OSError, ValueError):  # a node may say that it is any time
            return None

    def beginning(self, epoch: int) -> int:
        """The first block of an epoch."""
        return epoch * self.epoch_blocks + 1


@click.command()
@click.argument("account", required=False, metavar="[ACCOUNT]")
@click.pass_obj
def locks(session: WalletSession, account: str | None) -> None:
    """Show what is locked of an account: for what, until when, what could take how much of it.

    Without ACCOUNT, of every stored key. All of it is of the newest final block.
    """

    async def show(client: ChainClient) -> None:
        at = await client.finalized()
        clock = await _clock(client, at)
        names = [account] if account else list(session.keyring.names())
        if not names:
            raise WalletError("there is no stored key to show: name an account")
        rows = []
        for name in names:
            found = [lock async for lock in _found(client, session.account(name), at)]
            if len(found) > LOCKS_SHOWN_MAX:
                note(f"{name} has more than {LOCKS_SHOWN_MAX:,} locks: these are the first")
            rows += [{"account": name, **_row(lock, clock)} for lock in found[:LOCKS_SHOWN_MAX]]
        whose = () if account else ("account",)
        if session.output.as_json:
            session.output.rows("", (*whose, *TOLD), rows)
        else:
            _tell(session, rows, (*whose, *SHOWN), clock)

    session.run(show)


def _tell(session: WalletSession, rows: list[dict[str, Any]], names: tuple[str, ...], clock: ChainClock) -> None:
    """A paragraph for each lock: a table has no room for sentences beside addresses."""
    locked = format_amount(sum(row["amount"] for row in rows))
    click.echo(f"{locked} {SYMBOL} locked; it is block {clock.block:,} now, epoch {clock.epoch:,}")
    for row in rows:
        click.echo()
        session.output.facts({name: row[name] for name in names})


async def _found(client: ChainClient, who: bytes, at: bytes) -> AsyncIterator[Lock]:
    """Delegations and what comes back of them, then what the account holds itself; one more than are shown, at most."""
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


async def _clock(client: ChainClient, at: bytes) -> ChainClock:
    return ChainClock(
        block=await client.read(System.number, at=at),
        now_ms=await client.read(Timestamp.now, at=at),
        epoch_blocks=_constant(client.runtime, Beacon, Beacon.epoch_blocks),
        slot_ms=2 * _constant(client.runtime, Timestamp, Timestamp.minimum_period),
    )


def _constant(runtime: Runtime, pallet: Any, declaration: Any) -> int:
    found: int = constant_value(pallet, declaration, runtime)
    return found


def _row(lock: Lock, clock: ChainClock) -> dict[str, Any]:
    block = lock.until_block
    if lock.until_epoch is not None:
        block = clock.beginning(lock.until_epoch)
    about = None if block is None else clock.when(block)
    return {
        "reason": str(lock.reason),
        "amount": Grains(lock.amount),
        "what": lock.what,
        "case": _case(lock),
        "until": _until(lock, clock, about),
        "about": None if about is None else about.isoformat(timespec="seconds"),
        "until_epoch": lock.until_epoch,
        "until_block": lock.until_block,
        "at_most": Grains(lock.at_most),
        "taken_by": lock.taken_by,
    }


def _case(lock: Lock) -> Any:
    if lock.reason in _ACCOUNTS:
        return Account(lock.case)
    return int.from_bytes(lock.case, "big") if lock.reason is SERVICE_DEPOSIT else lock.case


def _until(lock: Lock, clock: ChainClock, about: datetime | None) -> str:
    """A height or an epoch with the date that it may have, and always what has to happen."""
    if lock.until_epoch is not None:
        place, now = f"epoch {lock.until_epoch:,}", f"it is {clock.epoch:,} now"
    elif lock.until_block is not None:
        place, now = f"block {lock.until_block:,}", f"it is {clock.block:,} now"
    else:
        return lock.until
    when = "reached" if about is None else f"about {about:%Y-%m-%d %H:%M} UTC"
    return f"{when} ({place}; {now}): {lock.until}"
