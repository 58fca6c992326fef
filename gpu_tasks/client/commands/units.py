"""Commands about what was posted: follow it, read its result, appeal about a unit.

An id is a unit's or a task's: what can be done with either has one command.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import click

from gpu_tasks.client.commands.handing import secret_option, secrets_of
from gpu_tasks.client.commands.naming import TaskError, named_id, named_unit, task_if_known
from gpu_tasks.client.commands.sending import key_option, planned, this_command, told_when_interrupted
from gpu_tasks.client.commands.task_runs import (
    accept_option,
    checkpoints_option,
    file_name_of,
    follow_task,
    force_option,
    out_option,
    show_result,
)
from gpu_tasks.client.costs.spent import SpentMoney
from gpu_tasks.client.output_files import OutputFile
from gpu_tasks.client.refunds import why_refunded
from gpu_tasks.client.results import (
    NO_REQUEST,
    PaidOutput,
    ResultError,
    answer_rows,
    completions_of,
    paid_output,
    progress,
    winner_of,
)
from gpu_tasks.client.unit_rows import UNITS_LISTED_MAX
from gpu_tasks.client.waiting import look
from gpu_tasks.client.watching import UNITS_WATCHED_MAX, follow, row_of, rows_of, standing
from gpu_tasks.data import market_reads
from gpu_tasks.data.appeals import appeal_against
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, unit_id_of
from gpu_tasks.market.training.terms import SLOTS_MAX
from wallet.client import ChainClient, Payer
from wallet.commands.making import PlannedCall, SendingOptions, make, sending_options
from wallet.keypair import Keypair
from wallet.output import Account, Output, harmless
from wallet.session import CallFailedError, WalletSession, note

PRICE = 5_000_000
STAYS = "nothing is lost: what is posted stays posted, and is worked on and paid for without this program"
NOT_KNOWN = "the chain knows no such unit or task: it is too new, too old, or of another chain"


@click.command()
@click.argument("units", nargs=-1)
@key_option
@checkpoints_option
@accept_option
@secret_option
@click.pass_obj
def watch(
    session: WalletSession, units: tuple[str, ...], key_text: str, checkpoints: Path, accepts: bool,
    secret_words: tuple[str, ...],
) -> None:  # fmt: skip
    """Follow UNITS (0x..), the open units of the key, or one task (0x..), until they end.

    The customer of a task holds its checkpoints meanwhile, so that its milestones count, and hands over its secrets.
    """
    secrets = secrets_of(secret_words)

    async def body(client: ChainClient) -> None:
        key = session.key(key_text)
        ids = [await named_id(session, client, text, key_text) for text in units]
        final = await client.finalized()
        tasks = [each for each in ids if await task_if_known(client, each, final) is not None]
        if tasks and len(ids) > 1:
            raise TaskError(f"0x{tasks[0].hex()} is a task: watch each task by itself, to hold its checkpoints")
        if tasks:
            await follow_task(session, client, key, tasks[0], checkpoints, accepts=accepts, secrets=secrets)
            return
        if None in await market_reads.units(client, ids):
            raise ResultError(NOT_KNOWN)  # it would be waited for without end
        ids = ids or await open_units(client, key.account)
        if not ids:
            note("the account has no open unit, so there is nothing to watch; `ogpu units` lists ended units")
            return
        await show_until_ended(session, client, key, dict.fromkeys(ids[:UNITS_WATCHED_MAX], ""))

    with told_when_interrupted(lambda: f"{STAYS}. Go on with `{this_command()}`"):
        session.run(body)


async def show_until_ended(
    session: WalletSession, client: ChainClient, key: Keypair, prompts: dict[bytes, str]
) -> None:
    """Follow units; CallFailedError if some end without a result."""
    named = {unit: text for unit, text in prompts.items() if text}
    rows, output = rows_of(list(prompts)), session.output
    is_table_seen = output.console.is_terminal and not output.as_json
    with session.doing(None if is_table_seen else partial(standing, rows)):
        rows = await follow(client, key, rows, output, named)
    failed = [row["unit"] for row in rows.values() if row["state"] != "settled"]
    if failed:
        ended = f"{len(failed)} of {counted(len(rows))} ended without a result"
        raise CallFailedError(f"{ended}: {', '.join(failed[:3])}")


async def open_units(client: ChainClient, account: bytes) -> list[bytes]:
    """The account's units that have not ended, among its newest."""
    count = await client.read(InferenceMarket.posted, account)
    numbers = range(max(0, count - UNITS_LISTED_MAX), count)
    ids = [unit_id_of(client.genesis_hash, account, number) for number in numbers]
    units = await market_reads.units(client, ids)
    return [unit_id for unit_id, unit in zip(ids, units, strict=True) if unit and not unit.ended_at]


@click.command()
@click.argument("unit", metavar="UNIT|TASK")
@key_option
@out_option
@force_option
@click.option(
    "--place", type=click.IntRange(0, SLOTS_MAX - 1), help="Of a task that several compute: what this one found."
)
@click.pass_obj
def result(session: WalletSession, unit: str, key_text: str, out: Path | None, force: bool, place: int | None) -> None:
    """Print what a settled UNIT (0x..) asked and the answer, or what came of a TASK (0x..), fetched and checked.

    With --out its bytes go into a file, as they were paid for.
    """
    if force and out is None:
        raise click.UsageError("--force replaces the file of --out: name one")
    file = None if out is None else OutputFile(out, is_forced=force)

    async def body(client: ChainClient) -> None:
        key, unit_id = session.key(key_text), await named_id(session, client, unit, key_text)
        final = await client.finalized()
        task = await task_if_known(client, unit_id, final)
        if task is not None:
            await show_result(session, client, key, unit_id, task, final, file, place)
            return
        found = await known_unit(client, unit_id, final)
        if file is not None:
            await _write_output(session.output, client, key, unit_id, found, final, file)
            return
        async with BlobClient(private=market_reads.is_development(client)) as blobs:
            if session.output.as_json:
                view = await look(client, [found], final)
                row = await row_of(client, blobs, key, unit_id, found, None, view, final)
                session.output.facts(row | {"sums": (await SpentMoney(client).of(unit_id, found)).facts()})
                return
            _require_settled(found, unit_id)
            completions = await completions_of(client, blobs, key, unit_id, found, final)
        text = "\n".join(f"{each.prompt}\n{NO_REQUEST if each.output is None else each.output}" for each in completions)
        click.echo(harmless(text) if sys.stdout.isatty() else text)

    session.run(body)


async def _write_output(
    output: Output, client: ChainClient, key: Keypair, unit_id: bytes, unit: Unit, final: bytes, file: OutputFile
) -> None:
    """The bytes that a unit was paid for go into a file; what they are is shown."""
    file.place(file_name_of(unit_id))  # said before anything is fetched
    _require_settled(unit, unit_id)
    async with BlobClient(private=market_reads.is_development(client)) as blobs:
        found = await paid_output(client, blobs, key, unit_id, unit, final)
    content = _content(found)
    written = file.write(file_name_of(unit_id), content)
    shown, winner = found.shown(), winner_of(unit)
    facts = {
        "unit": unit_id,
        "state": progress(unit),
        "prompt": shown[0].prompt if len(shown) == 1 else f"{len(shown)} requests",
        "workload": None if found.form is None else found.form.name,
        "payee": None if winner is None else Account(winner.owner),
        **(await SpentMoney(client).of(unit_id, unit)).facts(),
        "output_bytes": len(content),
        "written_to": str(written),
    }
    output.facts(facts)


def _content(found: PaidOutput) -> bytes:
    """The output of a single request as it is; of a batch a JSON object a line, as `ogpu result` shows them."""
    if len(found.outcomes) == 1 and found.outputs[0] is not None:
        return found.outputs[0]
    return "".join(json.dumps(row) + "\n" for row in answer_rows(found.shown())).encode()


def _require_settled(unit: Unit, unit_id: bytes) -> None:
    """ResultError that says why there is no result, and what to do."""
    if unit.state is UnitState.REFUNDED:
        raise ResultError(f"the unit has no result: {why_refunded(unit)}")
    if unit.state is not UnitState.SETTLED:
        raise ResultError(f"the unit is {progress(unit)}: follow it with `ogpu watch 0x{unit_id.hex()}`")


@click.command()
@click.argument("unit")
@key_option
@sending_options
@click.pass_obj
def appeal(session: WalletSession, unit: str, key_text: str, sending: SendingOptions) -> None:
    """Appeal against what judges have said of UNIT (0x..): a court decides, and a bond is lost if it says the same."""

    async def plan(client: ChainClient, payer: Payer) -> PlannedCall:
        found = await appeal_against(client, await named_unit(session, client, unit, key_text), payer.account)
        return planned(session.output, found.call, found.facts, locks=found.bond)

    make(session, key_text, sending, plan)


async def known_unit(client: ChainClient, unit_id: bytes, at: bytes) -> Unit:
    """The unit at a block; ResultError if the chain does not know it."""
    status = await market_reads.unit(client, unit_id, at)
    if status is None:
        if await task_if_known(client, unit_id, at) is not None:
            raise ResultError("this is a task, and no unit: `ogpu describe` shows it")
        raise ResultError(NOT_KNOWN)
    return status.unit


def counted(units: int) -> str:
    """How many units, in words."""
    return "1 unit" if units == 1 else f"{units} units"
