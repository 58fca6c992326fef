"""`logs` and `top`: what the providers of tasks tell while they work, over brokers that nobody has to trust."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import click
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gpu_tasks.client.commands.naming import TaskError, known_task, require_market, task_id_of_text
from gpu_tasks.client.commands.sending import key_option
from gpu_tasks.client.telemetry.hearing import HeardNote
from gpu_tasks.client.telemetry.live import for_a_while, hearings_of, nothing_heard
from gpu_tasks.client.telemetry.progress import PROGRESS_COLUMNS, SHOWN_COLUMNS, WHOSE_WORD, ProgressTable
from gpu_tasks.data import training_reads
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.training.tasks import is_open
from runtime.cryptography import ss58
from wallet.client import ChainClient
from wallet.output import Output, harmless
from wallet.session import CallFailedError, WalletSession

HEARD_SECONDS = 12.0
"""A provider beats every ten seconds."""
NOTHING = (
    "nothing was heard: the task may wait for its auction (`ogpu describe`), or its provider has no broker; "
    "`-f` waits, and says why it does"
)

mqtt_option = click.option(
    "--mqtt", "mqtt", metavar="URL", help="The broker to listen to.  [default: those that the providers name]"
)


@click.command()
@click.argument("task")
@key_option
@mqtt_option
@click.option("-f", "--follow", is_flag=True, help="Go on until the task has ended.")
@click.pass_obj
def logs(session: WalletSession, task: str, key_text: str, mqtt: str | None, follow: bool) -> None:
    """Show what the providers of TASK (0x..) tell of it: events, lines, progress; its customer's key opens that.

    Whatever a broker forges, replays, holds back or is late with is said. None of it is proof of anything.
    """

    async def body(client: ChainClient) -> None:
        task_id = task_id_of_text(task)
        found = await known_task(client, task_id, await client.finalized())
        key = session.key(key_text)
        if found.customer != key.account:
            raise TaskError(f"the task is {ss58.encode(found.customer)}'s: only the key that submitted it hears of it")
        if not is_open(found):
            raise TaskError("the task has ended: see `ogpu describe` and `ogpu result`")
        heard = 0
        async with hearings_of(client, SealKey.of(key), (task_id,), mqtt) as hearings:
            async for hearing in hearings if follow else for_a_while(hearings, HEARD_SECONDS):
                heard += hearing.note is not None
                _print(session.output, hearing)
        if not heard and not follow:
            raise CallFailedError(NOTHING)

    session.run(body)


@click.command()
@click.argument("tasks", nargs=-1)
@key_option
@mqtt_option
@click.option("--once", is_flag=True, help="Listen for twelve seconds, show what there is, and end.")
@click.pass_obj
def top(session: WalletSession, tasks: tuple[str, ...], key_text: str, mqtt: str | None, once: bool) -> None:
    """Show how far the running TASKS (0x..) of a key are, and what their devices are at; all, if none is named.

    State and milestones are the chain's. The rest is what providers tell: nothing proves it, no payment rests on it.
    """

    async def body(client: ChainClient) -> None:
        require_market(client)
        key = session.key(key_text)
        named = tuple(map(task_id_of_text, tasks)) or await _running(client, key.account)
        if not named:
            raise TaskError("none of the key's tasks runs: `ogpu ps` lists them")
        table = ProgressTable()
        async with hearings_of(client, SealKey.of(key), named, mqtt, table.see) as hearings:
            await _show(session.output, table, for_a_while(hearings, HEARD_SECONDS) if once else hearings, once=once)

    session.run(body)


async def _running(client: ChainClient, customer: bytes) -> tuple[bytes, ...]:
    found = await training_reads.tasks_of(client, customer, await client.finalized())
    return tuple(task_id for task_id, task in found if is_open(task) and task.slots)


def _print(output: Output, hearing: HeardNote) -> None:
    if output.as_json:
        click.echo(json.dumps(hearing.row()))
        return
    at = time.strftime("%H:%M:%S", time.localtime(hearing.at_ms / 1_000))
    who = "" if hearing.place is None else f"[{hearing.place}] "
    for line in hearing.lines():
        click.echo(harmless(f"{at} {who}{line}").replace("\n", " "))


async def _show(output: Output, table: ProgressTable, hearings: AsyncIterator[HeardNote], *, once: bool) -> None:
    """A table that changes; of a program's user a row for each change; with `once` the last of it alone."""
    if output.as_json or once:
        async for hearing in hearings:
            table.take(hearing)
            if output.as_json and not once and hearing.note is not None:
                click.echo(json.dumps(hearing.row()))
        if once:
            table.note_silence(time.time_ns() // 1_000_000, nothing_heard(HEARD_SECONDS))
            columns = PROGRESS_COLUMNS if output.as_json else SHOWN_COLUMNS
            output.rows(f"Tasks: {WHOSE_WORD}", columns, table.rows(time.time_ns() // 1_000_000))
        return
    with Live(_drawn(table), console=output.console, refresh_per_second=2) as live:
        async for hearing in hearings:
            table.take(hearing)
            live.update(_drawn(table))


def _drawn(table: ProgressTable) -> Table:
    drawn = Table(title=WHOSE_WORD, title_justify="left")
    for name in SHOWN_COLUMNS:
        drawn.add_column(name.replace("_", " "))
    for row in table.rows(time.time_ns() // 1_000_000):
        drawn.add_row(*(Text(_cell(row[name])) for name in SHOWN_COLUMNS))
    return drawn


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        return f"0x{value.hex()[:8]}"
    return "" if value is None else harmless(str(value)).replace("\n", " ")
