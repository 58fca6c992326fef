"""Commands that list posted work: runs of files, by their records alone, and the units of a key."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cli.session import WalletSession, explained, note
from gpu_tasks.client.commands.once import postings_option
from gpu_tasks.client.units.run_record import BatchState, run_named, runs_of, state_of
from gpu_tasks.client.units.watch import COLUMNS as UNIT_COLUMNS
from gpu_tasks.client.units.watch import SHOWN, UNITS_LISTED_MAX, list_units, shown
from wallet.client import ChainClient

COLUMNS = ("run", "status", "total", "completed", "failed", "cost", "results")


@click.command()
@click.argument("run", required=False)
@postings_option
@click.pass_obj
def batch(session: WalletSession, run: str | None, postings: Path) -> None:
    """List the runs of files, or show how RUN stands.

    A run is a file that was posted with --out. RUN is its file of results, or its id. The command reads the run's
    own record and asks no node. With --json (before the command) it prints OpenAI's batch object. The words are
    OpenAI's too: in_progress, finalizing, completed, expired, cancelling, cancelled.
    """

    def body() -> None:
        if run is None:
            rows = [_row(state_of(record)) for record in runs_of(postings)]
            session.output.rows(f"runs in {postings}", COLUMNS, rows)
            return
        state = state_of(run_named(postings, run))
        if session.output.as_json:
            click.echo(state.json())
            return
        facts = {**_row(state), "errors": state.error_file, "completion_window": state.completion_window}
        del facts["cost"]  # at the end of its sums
        facts |= state.sums.facts()
        times = {f"{name}_at": _time(at) for name, at in {"created": state.created_at, **state.times}.items()}
        session.output.facts({name: value for name, value in {**facts, **times}.items() if value is not None})

    explained(body)


@click.command()
@click.option("--key", "key_text", required=True, metavar="KEY", help="A key, or any account's address.")
@click.option("--open", "is_open_only", is_flag=True, help="Show only units that have not ended.")
@postings_option
@click.pass_obj
def units(session: WalletSession, key_text: str, is_open_only: bool, postings: Path) -> None:
    """List the units of a key, open and ended, oldest first.

    A row has state, service, cost, block and time. A unit is listed as long as the chain knows it. Units that a
    file's run on this machine posted stay longer. Times are estimates from block numbers.
    """

    async def body(client: ChainClient) -> None:
        found = await list_units(client, session.account(key_text), postings)
        rows = [row for row in found.rows if not (is_open_only and (row["ended_in_block"] or row["service"] is None))]
        if session.output.as_json:
            session.output.rows("Units", UNIT_COLUMNS, rows)
        else:
            session.output.rows("Units", SHOWN, [shown(row) for row in rows])
        if not rows:
            note(f"{key_text} has no {'open ' if is_open_only else ''}unit that this chain still knows")
        if found.left_out:
            note(f"the list has the newest {UNITS_LISTED_MAX}: {found.left_out:,} older ones are left out")

    session.run(body)


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


def _time(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
