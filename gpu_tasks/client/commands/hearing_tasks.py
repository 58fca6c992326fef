"""`logs` and `top`: what the providers of tasks tell while they work, over brokers that nobody has to trust."""

from __future__ import annotations

import asyncio
import contextlib
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
from gpu_tasks.client.telemetry.brokers import BrokerBook
from gpu_tasks.client.telemetry.following import TaskHearings
from gpu_tasks.client.telemetry.hearing import HeardNote
from gpu_tasks.client.telemetry.progress import PROGRESS_COLUMNS, ProgressTable
from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.endpoint import EndpointError
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.training.tasks import is_open
from gpu_tasks.telemetry.broker import BrokerAddress, parse_broker
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
        async with _hearings(client, SealKey.of(key), (task_id,), mqtt) as hearings:
            async for hearing in hearings if follow else _for_a_while(hearings):
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
    """Show how far the running TASKS (0x..) of a key are, and what their devices are at; all, if none is named."""

    async def body(client: ChainClient) -> None:
        require_market(client)
        key = session.key(key_text)
        named = tuple(map(task_id_of_text, tasks)) or await _running(client, key.account)
        if not named:
            raise TaskError("none of the key's tasks runs: `ogpu ps` lists them")
        table = ProgressTable()
        async with _hearings(client, SealKey.of(key), named, mqtt) as hearings:
            await _show(session.output, table, _for_a_while(hearings) if once else hearings, once=once)

    session.run(body)


@contextlib.asynccontextmanager
async def _hearings(
    client: ChainClient, key: SealKey, task_ids: tuple[bytes, ...], mqtt: str | None
) -> AsyncIterator[AsyncIterator[HeardNote]]:
    """What is heard of some tasks; TaskError for a broker that is none."""
    private = market_reads.is_development(client)
    override: BrokerAddress | None = None
    if mqtt is not None:
        try:
            override = parse_broker(mqtt, private=private)
        except EndpointError as error:
            raise TaskError(f"--mqtt: {error}") from None
    async with BlobClient(private=private) as blobs:
        stream = TaskHearings(BrokerBook(client, blobs, override), key, task_ids).stream()
        async with contextlib.aclosing(stream):
            yield stream


async def _for_a_while(hearings: AsyncIterator[HeardNote]) -> AsyncIterator[HeardNote]:
    """What is heard in the next seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(HEARD_SECONDS):
            async for hearing in hearings:
                yield hearing


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
            output.rows("Tasks", PROGRESS_COLUMNS, table.rows(time.time_ns() // 1_000_000))
        return
    with Live(_drawn(table), console=output.console, refresh_per_second=2) as live:
        async for hearing in hearings:
            table.take(hearing)
            live.update(_drawn(table))


def _drawn(table: ProgressTable) -> Table:
    drawn = Table()
    for name in PROGRESS_COLUMNS:
        drawn.add_column(name.replace("_", " "))
    for row in table.rows(time.time_ns() // 1_000_000):
        drawn.add_row(*(Text(_cell(row[name])) for name in PROGRESS_COLUMNS))
    return drawn


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        return f"0x{value.hex()[:8]}"
    return "" if value is None else harmless(str(value)).replace("\n", " ")
