"""`logs` and `top`: reports of providers at work, over brokers that the customer need not trust."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, NoReturn

import click
from rich.live import Live

from cli.output import Output
from cli.session import CallFailedError, WalletSession, note, reads
from cli.tables import FittedTable
from gpu_tasks.client.commands.id_prefixes import TaskError, known_task, named_task, require_customer, require_market
from gpu_tasks.client.tasks.results import RunBlobError, fetch_lines, places_with_lines
from gpu_tasks.client.tasks.streams import (
    PROGRESS_COLUMNS,
    SHOWN_COLUMNS,
    WHOSE_WORD,
    ProgressTable,
    for_a_while,
    hearings_of,
    nothing_heard,
)
from gpu_tasks.client.tasks.subscriber import HeardNote, lines_row, shown_line
from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.program_left import ProgramLeft
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.training.tasks import Task, TaskState, is_open
from wallet.client import ChainClient
from wallet.errors import harmless
from wallet.keypair import Keypair

HEARD_SECONDS = 12.0
"""A provider reports every ten seconds."""
TASK_BYTES_SHOWN = 4
REDRAWN_SECONDS = 0.5
NOTHING = "no report arrived. The task's provider may have no broker. `-f` waits and shows the reason"
NO_PROVIDER = "no report arrived: the task had no provider yet (`ogpu task show`). `-f` waits for one"
NOT_KEPT = "the task has ended, and no output of its program was kept. See `ogpu task show` and `ogpu task result`"


@reads
async def logs(
    session: WalletSession, client: ChainClient, task: str, key_text: str, mqtt: str | None, follow: bool,
    place: int | None,
) -> None:  # fmt: skip
    """Carry out `ogpu task logs`."""
    task_id = await named_task(session, client, task, key_text)
    chain_task = await known_task(client, task_id, await client.finalized())
    keypair = session.key(key_text)
    require_customer(chain_task, keypair.account, "hears of it")
    if chain_task.state is not TaskState.RUNNING and (places := places_with_lines(chain_task, place)):
        await _show_kept(session.output, client, keypair, task_id, chain_task, places)
        return
    if not is_open(chain_task):
        raise TaskError(NOT_KEPT, code="no_output_kept")
    heard_count = 0
    async with hearings_of(client, SealKey.of(keypair), (task_id,), mqtt) as hearings:
        with session.doing(None):
            async for hearing in hearings if follow else for_a_while(hearings, HEARD_SECONDS):
                heard_count += hearing.note is not None
                _print_hearing(session.output, hearing)
    if not heard_count and not follow:
        if not chain_task.slots:
            raise CallFailedError(NO_PROVIDER, code="no_provider_yet")
        raise CallFailedError(NOTHING, code="no_report")


@reads
async def top(
    session: WalletSession, client: ChainClient, tasks: tuple[str, ...], key_text: str, mqtt: str | None, once: bool
) -> None:
    """Carry out `ogpu task top`."""
    require_market(client)
    keypair = session.key(key_text)
    typed = [await named_task(session, client, task, key_text) for task in tasks]
    named = tuple(typed) or await _tasks_with_slots(client, keypair.account)
    if not named:
        raise TaskError("no task of this key is running. `ogpu task list` shows its tasks", code="no_running_task")
    table = ProgressTable()
    async with hearings_of(client, SealKey.of(keypair), named, mqtt, table.see) as hearings:
        heard = for_a_while(hearings, HEARD_SECONDS) if once else hearings
        with session.doing(None):
            await _show_table(session.output, table, heard, once=once)


async def _tasks_with_slots(client: ChainClient, customer: bytes) -> tuple[bytes, ...]:
    tasks = await training_reads.tasks_of(client, customer, await client.finalized())
    return tuple(task_id for task_id, task in tasks if is_open(task) and task.slots)


def _print_hearing(output: Output, hearing: HeardNote) -> None:
    if output.as_json:
        click.echo(json.dumps(hearing.row()))
        return
    for line in hearing.lines():
        _print_line(hearing.at_ms, hearing.place, line)


def _print_line(at_ms: int, place: int | None, line: str) -> None:
    try:
        time_text = time.strftime("%H:%M:%S", time.localtime(at_ms / 1_000))
    except (ValueError, OverflowError, OSError):  # A provider can report any number.
        time_text = "??:??:??"
    place_text = "" if place is None else f"[{place}] "
    click.echo(harmless(f"{time_text} {place_text}{line}").replace("\n", " "))


async def _show_kept(
    output: Output, client: ChainClient, keypair: Keypair, task_id: bytes, task: Task, places: Sequence[int]
) -> None:
    """Print the last lines of ended programs. Raise RunBlobError if none of them is available."""
    providers = await market_reads.providers(client, await client.finalized())
    problems: list[RunBlobError] = []
    async with BlobClient(private=market_reads.is_development(client)) as blob_client:
        for place in places:
            try:
                program_left = await fetch_lines(blob_client, keypair, task, providers, place)
            except RunBlobError as error:
                problems.append(error)
                note(str(error))
                continue
            _print_kept(output, task_id, place, program_left)
    if len(problems) == len(places):
        raise problems[0]


def _print_kept(output: Output, task_id: bytes, place: int, program_left: ProgramLeft) -> None:
    if output.as_json:
        row = {"task": "0x" + task_id.hex(), "place": place, "kind": "kept_log"}
        click.echo(json.dumps(row | lines_row(program_left.lines, program_left.left_out)))
        return
    note(
        f"the program at place {place} has ended; these are the last {len(program_left.lines):,} lines that it "
        f"wrote, by its provider's word"
        + (f"; {program_left.left_out:,} earlier lines were not kept" if program_left.left_out else "")
    )
    for line in program_left.lines:
        _print_line(line.at_ms, place, shown_line(line))


async def _show_table(output: Output, table: ProgressTable, hearings: AsyncIterator[HeardNote], *, once: bool) -> None:
    """Show a live table. For programs print a row for each change. With `once` show only the last table."""
    if output.as_json or once:
        async for hearing in hearings:
            table.take(hearing)
            if output.as_json and not once and hearing.note is not None:
                click.echo(json.dumps(hearing.row()))
        if once:
            table.note_silence(time.time_ns() // 1_000_000, nothing_heard(HEARD_SECONDS))
            rows = table.rows(time.time_ns() // 1_000_000)
            if output.as_json:
                output.rows(f"Tasks: {WHOSE_WORD}", PROGRESS_COLUMNS, rows)
            else:
                output.rows(
                    f"Tasks: {WHOSE_WORD}",
                    SHOWN_COLUMNS,
                    [row | {"task": row["task"][:TASK_BYTES_SHOWN]} for row in rows],
                )
        return
    with Live(_drawn_table(table), console=output.console, auto_refresh=False) as live:
        drawing = asyncio.create_task(_drawn_again_and_again(live, table))
        try:
            async for hearing in hearings:
                table.take(hearing)
        finally:
            drawing.cancel()
            await asyncio.gather(drawing, return_exceptions=True)
        live.update(_drawn_table(table), refresh=True)


async def _drawn_again_and_again(live: Live, table: ProgressTable) -> NoReturn:
    """Draw twice a second, for any number of reports: a table of 64 rows takes longer than one report is worth."""
    while True:
        live.update(_drawn_table(table), refresh=True)
        await asyncio.sleep(REDRAWN_SECONDS)


def _drawn_table(table: ProgressTable) -> FittedTable:
    rows = table.rows(time.time_ns() // 1_000_000)
    texts = [[_cell_text(row[name]) for name in SHOWN_COLUMNS] for row in rows]
    return FittedTable(WHOSE_WORD, [name.replace("_", " ") for name in SHOWN_COLUMNS], texts)


def _cell_text(value: Any) -> str:
    if isinstance(value, bytes):
        return f"0x{value[:TASK_BYTES_SHOWN].hex()}"
    return "" if value is None else harmless(str(value)).replace("\n", " ")
