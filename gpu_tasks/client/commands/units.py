"""Commands about units: list, follow and show them, read results, appeal, list the runs of files."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cli.calls import PlannedCall, Planning, sends
from cli.chain_time import date_text, read_time
from cli.output import Account, Output, fields_of
from cli.session import CallFailedError, WalletSession, note, reads
from gpu_tasks.client.buyer import accounts_of
from gpu_tasks.client.commands.calls import planned, this_command, told_when_interrupted
from gpu_tasks.client.commands.id_prefixes import named_unit, require_no_task
from gpu_tasks.client.commands.task_runs import (
    file_name_of,
)
from gpu_tasks.client.offers.outlook import grains_of
from gpu_tasks.client.output_files import OutputFile, output_file
from gpu_tasks.client.units.batch_object import BatchState
from gpu_tasks.client.units.costs import SpentMoney
from gpu_tasks.client.units.payments import UnitPayment, check_fees_of, lost_by, payments_of, unit_end
from gpu_tasks.client.units.pending_checks import PendingChecks, pending_checks
from gpu_tasks.client.units.results import (
    NO_REQUEST,
    PaidOutput,
    ResultError,
    answer_rows,
    completions_of,
    has_answer,
    paid_output,
    progress,
    why_refunded,
    winner_of,
)
from gpu_tasks.client.units.run_record import run_named, runs_of, state_of
from gpu_tasks.client.units.wait_reasons import look, why_queued
from gpu_tasks.client.units.watch import (
    UNIT_COLUMNS,
    UNIT_COLUMNS_SHOWN,
    UNITS_LISTED_MAX,
    UNITS_WATCHED_MAX,
    FollowedUnit,
    FollowedUnits,
    follow,
    list_units,
    newest_units,
    shown,
    unit_view,
)
from gpu_tasks.data import market_reads
from gpu_tasks.data.appeals import appeal_against
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.inference.units import Racer, Unit, UnitState, is_open
from wallet.amounts import Grains, counted
from wallet.client import ChainClient
from wallet.errors import harmless
from wallet.keypair import Keypair

PRICE = 5_000_000
STAYS = "posted units stay posted. Providers work on them, and you pay for them, without this program"
NOT_KNOWN = "the chain knows no such unit. It is too new, too old, or of another chain. See `ogpu unit list`"


def watch_units(session: WalletSession, units: tuple[str, ...], key_text: str) -> None:
    """Carry out `ogpu unit watch`."""

    async def body(client: ChainClient) -> None:
        key = session.key(key_text)
        ids = [await named_unit(session, client, text, key_text) for text in units]
        final = await client.finalized()
        for each in ids:  # Following an unknown unit would never end.
            await known_unit(client, each, final)
        ids = ids or await open_units(client, key.account)
        if not ids:
            note("the account has no open unit, so there is nothing to watch. `ogpu unit list` shows ended units")
            return
        await show_until_ended(session, client, key, dict.fromkeys(ids[:UNITS_WATCHED_MAX], ""))

    with told_when_interrupted(lambda: f"{STAYS}. Go on with `{this_command()}`"):
        session.run(body)


async def show_until_ended(
    session: WalletSession, client: ChainClient, key: Keypair, prompts: dict[bytes, str]
) -> None:
    """Follow units until they end. Raise CallFailedError if some end without a result."""
    named = {unit: text for unit, text in prompts.items() if text}
    followed = FollowedUnits({unit: FollowedUnit("0x" + unit.hex()) for unit in prompts})
    rows, output = followed.rows, session.output
    is_table_seen = output.console.is_terminal and not output.as_json
    with session.doing(None if is_table_seen else followed.standing):
        await follow(client, key, followed, output, named)
    failed = [row.unit for row in rows.values() if row.state != "settled"]
    if failed:
        ended = f"{len(failed)} of {counted(len(rows))} ended without a result"
        raise CallFailedError(f"{ended}: {', '.join(failed[:3])}", code="units_failed")


async def open_units(client: ChainClient, account: bytes) -> list[bytes]:
    """Return the open units among the newest of an account, and of the budgets that its key may spend."""
    found, final = list[bytes](), await client.finalized()
    for customer in await accounts_of(client, account):
        units, _ = await newest_units(client, customer, final)
        found += [unit_id for unit_id, unit in units.items() if unit and not unit.ended_at]
    return found


def unit_result(session: WalletSession, unit: str, key_text: str, out: Path | None, force: bool) -> None:
    """Carry out `ogpu unit result`."""
    file = output_file(out, is_forced=force)

    async def body(client: ChainClient) -> None:
        key, unit_id = session.key(key_text), await named_unit(session, client, unit, key_text)
        final = await client.finalized()
        found = await known_unit(client, unit_id, final)
        if file is not None:
            await _write_output(session.output, client, key, unit_id, found, final, file)
            return
        async with BlobClient(private=market_reads.is_development(client)) as blobs:
            if session.output.as_json:
                view = await look(client, [found], final)
                seen = await unit_view(client, blobs, key, unit_id, found, None, view, final)
                sums = (await SpentMoney(client).of(unit_id, found)).facts()
                session.output.facts(fields_of(seen) | {"sums": sums})
                return
            _require_answer(found, unit_id)
            completions = await completions_of(client, blobs, key, unit_id, found, final)
        await _note_unpaid(client, unit_id, found, final)
        text = "\n".join(f"{each.prompt}\n{NO_REQUEST if each.output is None else each.output}" for each in completions)
        # Providers wrote this text. A terminal would act on its control sequences, a pipe needs the exact bytes.
        click.echo(harmless(text) if sys.stdout.isatty() else text)

    session.run(body)


async def _write_output(
    output: Output, client: ChainClient, key: Keypair, unit_id: bytes, unit: Unit, final: bytes, file: OutputFile
) -> None:
    """Write the paid bytes of a unit to a file, and print facts about them."""
    file.place(file_name_of(unit_id))  # Refuse an unusable file before anything is fetched.
    _require_answer(unit, unit_id)
    async with BlobClient(private=market_reads.is_development(client)) as blobs:
        found = await paid_output(client, blobs, key, unit_id, unit, final)
    content = _content(found)
    written = file.write(file_name_of(unit_id), content)
    shown, winner = found.shown(), winner_of(unit)
    pending = await pending_checks(client, unit_id, unit, final)
    facts = {
        "unit": unit_id,
        "state": progress(unit),
        **_pending_facts(output, pending),
        "prompt": shown[0].prompt if len(shown) == 1 else counted(len(shown), "request"),
        "workload": None if found.form is None else found.form.name,
        "payee": None if winner is None else Account(winner.owner),
        **(await SpentMoney(client).of(unit_id, unit)).facts(),
        "output_bytes": len(content),
        "written_to": str(written),
    }
    output.facts(facts)
    await _note_unpaid(client, unit_id, unit, final)


async def _note_unpaid(client: ChainClient, unit_id: bytes, unit: Unit, final: bytes) -> None:
    """Note the check that the payment of an answer waits for."""
    pending = await pending_checks(client, unit_id, unit, final)
    if pending is not None:
        chain_time = await read_time(client, final)
        note(f"{chain_time.timed(pending.says())}. A check may still refute the answer. The price comes back then")


def _content(found: PaidOutput) -> bytes:
    """Return the output of a single request as it is; of a batch a JSON object a line."""
    if len(found.outcomes) == 1 and found.outputs[0] is not None:
        return found.outputs[0]
    return "".join(json.dumps(row) + "\n" for row in answer_rows(found.shown())).encode()


def _require_answer(unit: Unit, unit_id: bytes) -> None:
    """Raise ResultError for a unit without an answer."""
    if unit.state is UnitState.REFUNDED:
        raise ResultError(f"the unit has no result: {why_refunded(unit)}", code="no_result")
    if not has_answer(unit):
        raise ResultError(
            f"the unit is {progress(unit)}. Follow it with `ogpu unit watch 0x{unit_id.hex()}`", code="no_result_yet"
        )


@sends
async def appeal(by: Planning, unit: str) -> PlannedCall:
    """Carry out `ogpu unit appeal`."""
    unit_id = await named_unit(by.session, by.client, unit, by.key_text)
    found = await appeal_against(by.client, unit_id, by.payer.account)
    return planned(by.session.output, found.call, found.facts)


async def known_unit(client: ChainClient, unit_id: bytes, block_hash: bytes) -> Unit:
    """Return the unit at a block. Raise ResultError if the chain does not know it."""
    status = await market_reads.unit(client, unit_id, block_hash)
    if status is None:
        await require_no_task(client, unit_id, block_hash)
        raise ResultError(NOT_KNOWN, code="unit_unknown")
    return status.unit


OPEN_CLAIM = (
    "stage", "actor", "account", "until_block", "collateral", "check_fees_max", "is_second_check", "disputes",
)  # fmt: skip
RACERS = ("racer", "device", "answer", "collateral", "lost")
CHECKS = ("checker", "is_second", "end", "fee")
PAYMENTS = ("to", "account", "amount", "out_of")
NOT_ALL = "payments to checkers are proved for the last 64 final blocks only"


@reads
async def show(session: WalletSession, client: ChainClient, unit: str) -> None:
    """Carry out `ogpu unit show`."""
    unit_id = await named_unit(session, client, unit)
    final = await client.finalized()
    found = await known_unit(client, unit_id, final)
    pending = await pending_checks(client, unit_id, found, final)
    facts = await _facts(client, unit_id, found, final, pending)
    racers = [_racer_row(found, racer) for racer in found.racers]
    paid: list[UnitPayment] = []
    checks: list[dict[str, Any]] = []
    if not is_open(found):
        ending = await unit_end(client, unit_id, found)
        paid, is_all = payments_of(unit_id, found, ending)
        facts["payments_not_shown"] = None if is_all else NOT_ALL
        checks = [] if ending is None else ending.check_facts()
    rows = [_payment_row(payment) for payment in paid]
    output = session.output
    if output.as_json:
        output.facts(facts | _pending_facts(output, pending) | {"race": racers, "payments": rows, "checks": checks})
        return
    chain_time = await read_time(client, final)
    timed = {} if facts["why"] is None else {"why": chain_time.timed(facts["why"])}
    output.facts({name: value for name, value in (facts | timed).items() if value is not None})
    if racers:
        output.rows("Racers", RACERS, racers)
    claim = None if pending is None else pending.claim_facts()
    if claim is not None:
        output.rows("Open claim of its result", OPEN_CLAIM, [claim])
    if checks:
        output.rows("Checks", CHECKS, checks)
    if rows:
        output.rows("Who was paid", PAYMENTS, rows)


def _pending_facts(output: Output, pending: PendingChecks | None) -> dict[str, Any]:
    """Return the open claim and the open dispute for programs."""
    if not output.as_json:
        return {}
    return {
        "claim": None if pending is None else pending.claim_facts(),
        "dispute": None if pending is None else pending.dispute_facts(),
    }


async def _facts(
    client: ChainClient, unit_id: bytes, unit: Unit, final: bytes, pending: PendingChecks | None
) -> dict[str, Any]:
    chain_time = await read_time(client, final)
    return {
        "unit": unit_id,
        "state": progress(unit),
        "why": await _why(client, unit, final, pending),
        "refund": None if unit.refund is None else unit.refund.name.lower(),
        "customer": Account(unit.customer),
        "service": unit.service,
        "racers": unit.terms.racers,
        "class": None if unit.terms.device_class is None else unit.terms.device_class.name.lower(),
        "attempt": unit.attempt,
        "posted_in_block": unit.posted_at,
        "posted_about": date_text(chain_time.block_ms(unit.posted_at)),
        "ended_in_block": unit.ended_at or None,
        "ended_about": date_text(chain_time.block_ms(unit.ended_at)) if unit.ended_at else None,
        "price": Grains(unit.price or unit.terms.price_max),
        **(await SpentMoney(client).of(unit_id, unit)).facts(),
        "check_fees": None if is_open(unit) else Grains(check_fees_of(unit)),
    }


async def _why(client: ChainClient, unit: Unit, final: bytes, pending: PendingChecks | None) -> str | None:
    """Return the reason of a wait, or of an end without a result."""
    if unit.state is UnitState.REFUNDED:
        return why_refunded(unit)
    if pending is not None:
        return pending.says()
    view = await look(client, [unit], final)
    return None if view is None else why_queued(unit, view)


def _racer_row(unit: Unit, racer: Racer) -> dict[str, Any]:
    said = "committed" if racer.commitment is not None else "nothing yet"
    said = "declined" if racer.has_declined else said
    answer = said if racer.reveal is None else "0x" + racer.reveal.output_root.hex()
    return {
        "racer": Account(racer.owner),
        "device": racer.device,
        "answer": answer,
        "collateral": Grains(racer.collateral),
        "lost": grains_of(lost_by(unit, racer)),
    }


def _payment_row(payment: UnitPayment) -> dict[str, Any]:
    return {
        "to": payment.role,
        "account": None if payment.account is None else Account(payment.account),
        "amount": Grains(payment.grains),
        "out_of": payment.source,
        "payer": Account(payment.payer),
    }


COLUMNS = ("run", "status", "total", "completed", "failed", "cost", "results")


def runs(session: WalletSession, run: str | None, postings: Path) -> None:
    """Carry out `ogpu unit runs`."""
    if run is None:
        rows = [_row(state_of(record)) for record in runs_of(postings)]
        session.output.rows(f"runs in {postings}", COLUMNS, rows)
        return
    state = state_of(run_named(postings, run))
    if session.output.as_json:
        click.echo(state.json())
        return
    facts = {**_row(state), "errors": state.error_file, "completion_window": state.completion_window}
    del facts["cost"]  # The cost comes at the end of the sums.
    facts |= state.sums.facts()
    times = {
        f"{name}_at": _time(unix_seconds) for name, unix_seconds in {"created": state.created_at, **state.times}.items()
    }
    session.output.facts({name: value for name, value in {**facts, **times}.items() if value is not None})


@reads
async def list_posted(
    session: WalletSession, client: ChainClient, key_text: str, is_open_only: bool, postings: Path
) -> None:
    """Carry out `ogpu unit list`."""
    found = await list_units(client, session.account(key_text), postings)
    rows = [row for row in found.rows if not (is_open_only and (row.ended_in_block or row.service is None))]
    if session.output.as_json:
        session.output.rows("Units", UNIT_COLUMNS, [fields_of(row) for row in rows])
    else:
        session.output.rows("Units", UNIT_COLUMNS_SHOWN, [shown(row) for row in rows])
    if not rows:
        note(f"{key_text} has no {'open ' if is_open_only else ''}unit on the chain. The chain forgets old units")
    if found.left_out:
        note(f"the list has the newest {UNITS_LISTED_MAX} units. {found.left_out:,} older ones are left out")


def _row(state: BatchState) -> dict[str, Any]:
    return {
        "run": state.batch_id,
        "status": state.status.value,
        "total": state.counts.total,
        "completed": state.counts.completed,
        "failed": state.counts.failed,
        "cost": state.sums.facts()["cost"],
        "results": state.output_file,
    }


def _time(unix_seconds: int) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
