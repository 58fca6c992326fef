"""Units as rows: followed until they end, in a table or as JSON lines, and listed with this machine's records.

Always: a unit counts as ended when it has ended in the final chain; one that waits or is judged says why, and so does
one that was refunded or whose completion cannot be shown. A list has one row for each unit that the chain knows, and
for each that a file's run here posted and the chain has forgotten; times are reckoned back from the final block by
slots, so they are called "about": each slot without a block makes them later.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.live import Live

from cli.chain_time import date_text
from cli.output import Output, plain
from cli.session import note
from cli.tables import FittedTable
from gpu_tasks.client.offers.outlook import slot_ms
from gpu_tasks.client.units.costs import NOTHING, SpentMoney, UnitSums, paid_and_returned
from gpu_tasks.client.units.file_plan import ACCOUNT
from gpu_tasks.client.units.results import (
    NO_REQUEST,
    ResultError,
    answer_rows,
    attested_at,
    completions_of,
    cost_of,
    progress,
    why_refunded,
    winner_of,
)
from gpu_tasks.client.units.run_record import BatchRecord, run_id, runs_of
from gpu_tasks.client.units.wait_reasons import MarketView, look, why_heard, why_queued
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.side_by_side import all_side_by_side
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, is_open, unit_id_of
from runtime.cryptography import ss58
from runtime.pallets.timestamp import Timestamp
from wallet.amounts import Grains, format_amount
from wallet.client import ChainClient
from wallet.errors import harmless
from wallet.keypair import Keypair

UNITS_WATCHED_MAX = 1_024
SILENCE_SECONDS = 30.0
ROWS_AT_ONCE = 8
"""Completions that are fetched side by side: a store that drips holds the others up no more."""
TEXT_SHOWN = 60
PROMPT_SHOWN = 30
WHOLE_IDS_SHOWN = 32
"""Ids that are told whole when all units have ended, for the commands that take one; more than these `--json` tells."""
FIELDS = (
    "unit", "prompt", "state", "racers", "attempt", "attested_in_block", "ended_in_block", "payee", "cost_ogpu",
    "sums", "completion", "answers", "why",
)  # fmt: skip
"""What every row has; None where there is nothing to say yet."""

Row = dict[str, Any]


async def follow(
    client: ChainClient, key: Keypair, rows: dict[bytes, Row], output: Output, prompts: dict[bytes, str]
) -> dict[bytes, Row]:
    """Show the units of `rows` until all have ended, and keep the last row of each there. Return these rows."""
    ended: dict[bytes, UnitSums] = {}
    async with BlobClient(private=market_reads.is_development(client)) as blobs:
        changes = _changes(client, blobs, key, rows, prompts, ended)
        if output.as_json:
            async for height, changed in changes:
                for row in changed:
                    click.echo(json.dumps({"height": height, **row}))
        else:
            with Live(_table(rows, None), console=output.console, refresh_per_second=4) as live:
                async for height, _ in changes:
                    live.update(_table(rows, height))
            if not output.console.is_terminal:
                output.console.line()  # `Live` ends its line on terminals only
            output.facts(sum(ended.values(), NOTHING).facts())
            click.echo(whole_ids(list(rows.values())))
    return rows


def rows_of(units: Sequence[bytes]) -> dict[bytes, Row]:
    """Return empty rows for units."""
    return {unit: dict.fromkeys(FIELDS) | {"unit": "0x" + unit.hex()} for unit in units}


def standing(rows: Mapping[bytes, Row]) -> str:
    """Say in a sentence how many units have ended, and why the first open one waits."""
    waiting = [row for row in rows.values() if row["ended_in_block"] is None]
    said = f"{len(rows) - len(waiting)} of {len(rows)} units have ended"
    if not waiting:
        return said
    first = waiting[0]
    why = f": {first['why']}" if first["why"] else ""
    return f"{said}; {first['unit'][:10]} is {first['state'] or 'not looked at yet'}{why}"


async def _changes(
    client: ChainClient, blobs: BlobClient, key: Keypair, rows: dict[bytes, Row], prompts: dict[bytes, str],
    ended: dict[bytes, UnitSums],
) -> AsyncIterator[tuple[int, list[Row]]]:  # fmt: skip
    """At each final height, until all units have ended, the rows that changed; `rows` holds the newest of each.

    What those cost that have ended comes into `ended`.
    """
    waiting, spent = list(rows), SpentMoney(client)
    async for _ in moments(client):
        final = await client.finalized()
        units = await market_reads.units(client, waiting, final)
        view = await look(client, units, final)
        changed = []
        looks = [
            partial(row_of, client, blobs, key, unit_id, unit, prompts.get(unit_id), view, final)
            for unit_id, unit in zip(waiting, units, strict=True)
        ]
        found = await all_side_by_side(looks, at_once=ROWS_AT_ONCE)
        for unit_id, unit, row in zip(list(waiting), units, found, strict=True):
            if unit is not None and not is_open(unit):
                ended[unit_id] = await spent.of(unit_id, unit)
                row["sums"] = plain(ended[unit_id].facts())
            if row != rows[unit_id]:
                rows[unit_id] = row
                changed.append(row)
            if unit is not None and not is_open(unit):
                waiting.remove(unit_id)
        yield await client.height(final), changed
        if not waiting:
            return


async def moments(client: ChainClient) -> AsyncIterator[None]:
    """When to look: whenever the node tells of a final block, and when it has told of none for a while.

    What there is then is proved; a node that is silent about that too ends the command.
    """
    while True:
        heads = await client.finalized_heads()
        try:
            while True:
                async with asyncio.timeout(SILENCE_SECONDS):
                    await anext(heads)
                yield
        except TimeoutError:
            note(f"no block is final for {SILENCE_SECONDS:.0f} s: the chain stands still, or {client.rpc.url} does")
        yield


async def row_of(
    client: ChainClient,
    blobs: BlobClient,
    key: Keypair,
    unit_id: bytes,
    unit: Unit | None,
    prompt: str | None,
    view: MarketView | None,
    at: bytes | None = None,
) -> Row:
    """A unit as a row: everything that can be said of it at a block. `view` is needed for queued ones."""
    row: Row = dict.fromkeys(FIELDS) | {"unit": "0x" + unit_id.hex(), "prompt": prompt}
    if unit is None:
        return row | {"state": "not final yet, or not known any more"}
    winner = winner_of(unit)
    row |= {
        "state": progress(unit),
        "racers": len(unit.racers) or unit.terms.racers,
        "attempt": unit.attempt,
        "attested_in_block": attested_at(unit),
        "ended_in_block": unit.ended_at or None,
        "payee": ss58.encode(winner.owner) if winner else None,
        "cost_ogpu": format_amount(cost_of(unit)) if winner else None,
    }
    if unit.state is UnitState.SETTLED:
        row |= await _completion(client, blobs, key, unit_id, unit, at)
    elif unit.state is UnitState.REFUNDED:
        row["why"] = why_refunded(unit)
    elif unit.state is UnitState.JUDGING:
        row["why"] = await why_heard(client, unit_id, unit, at)
    elif unit.state is UnitState.QUEUED and view is not None:
        row["why"] = why_queued(unit, view)
    return row


async def _completion(
    client: ChainClient, blobs: BlobClient, key: Keypair, unit_id: bytes, unit: Unit, at: bytes | None
) -> Row:
    try:
        found = await completions_of(client, blobs, key, unit_id, unit, at)
    except ResultError as error:
        return {"why": str(error)}
    if len(found) == 1:
        return {"prompt": found[0].prompt, "completion": found[0].output}
    answered = [each for each in found if each.output is not None]
    first = f"; the first: {answered[0].output}" if answered else f": {NO_REQUEST}"
    return {"completion": f"{len(answered)} of {len(found)} answered{first}", "answers": answer_rows(found)}


def whole_ids(rows: Sequence[Row]) -> str:
    """List the ids that the table shortens, one a line: on another machine their first digits match nothing."""
    more = [f"and {len(rows) - WHOLE_IDS_SHOWN} more: `ogpu --json` tells all"] if len(rows) > WHOLE_IDS_SHOWN else []
    return "\n".join(["for `ogpu result` and `ogpu show`:", *(row["unit"] for row in rows[:WHOLE_IDS_SHOWN]), *more])


def _table(rows: dict[bytes, Row], height: int | None) -> FittedTable:
    units = "1 unit" if len(rows) == 1 else f"{len(rows)} units"
    title = units if height is None else f"{units} at block {height}"
    columns = ("unit", "state", "racers", "block", "payee", "oGPU", "prompt", "completion, or why there is none")
    texts = []
    for row in rows.values():
        payee, prompt, completion, why = row["payee"], row["prompt"], row["completion"], row["why"]
        cells = [row["unit"][:10], row["state"], row["racers"], row["attested_in_block"]]
        cells += [payee[:8] if payee else None, row["cost_ogpu"], _shortened(prompt, PROMPT_SHOWN)]
        # a reason is read to its end, a completion by `ogpu result`
        cells.append(harmless(why) if completion is None and why else _shortened(completion, TEXT_SHOWN))
        texts.append(["" if cell is None else str(cell) for cell in cells])
    return FittedTable(title, columns, texts)


def _shortened(text: str | None, length: int) -> str | None:
    """One line of a text."""
    if text is None:
        return None
    line = harmless(text).replace("\n", " ")
    return line if len(line) <= length else line[: length - 1] + "…"


UNITS_LISTED_MAX = 500
"""The most units of an account in one list, the newest first."""
COLUMNS = (
    "unit", "state", "service", "requests", "cost_before_fees", "posted_in_block", "posted_about", "ended_in_block",
    "ended_about", "run",
)  # fmt: skip
SHOWN = ("unit", "state", "service", "cost_before_fees", "posted_in_block", "posted_about", "ended_about", "run")
"""For people."""
ID_BYTES_SHOWN = 4
FORGOTTEN = "forgotten by the chain"


@dataclass(frozen=True, slots=True)
class UnitList:
    """The rows, the oldest first, and the number of older units that are left out."""

    rows: list[dict[str, Any]]
    left_out: int


@dataclass(frozen=True, slots=True)
class _Clock:
    """A final block and its time, in milliseconds since 1970."""

    height: int
    now_ms: int
    slot_ms: int

    def about(self, height: int) -> str | None:
        """Return the latest possible time of a block, to the minute; None for no block."""
        if not height:
            return None
        return date_text(self.now_ms - (self.height - height) * self.slot_ms)


@dataclass(frozen=True, slots=True)
class _Posted:
    """A unit of a run, by the run's record."""

    record: BatchRecord
    place: int


async def list_units(client: ChainClient, account: bytes, records: Path) -> UnitList:
    """List the account's units at the final block; `records` is the folder of file runs."""
    at = await client.finalized()
    count = await client.read(InferenceMarket.posted, account, at=at)
    first = max(0, count - UNITS_LISTED_MAX)
    ids = [unit_id_of(client.genesis_hash, account, number) for number in range(first, count)]
    units = await market_reads.units(client, ids, at)
    clock = _Clock(await client.height(at), await client.read(Timestamp.now, at=at), slot_ms(client))
    posted, spent = dict(_posted(records, account)), SpentMoney(client)
    rows = []
    for unit_id, unit in zip(ids, units, strict=True):
        run = posted.get(unit_id)
        if unit is not None:
            rows.append(await _row(unit_id, unit, run, spent, clock))
        elif run is not None:
            rows.append(_forgotten_row(unit_id, run))
    return UnitList(rows, first)


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """Shorten ids for people, to beginnings that every command takes."""
    return row | {"unit": row["unit"][:ID_BYTES_SHOWN]}


def _posted(records: Path, account: bytes) -> Iterator[tuple[bytes, _Posted]]:
    """The units of the account's runs, by their ids."""
    for record in runs_of(records):
        if record.plan is not None and record.plan.settings.get(ACCOUNT) == account.hex():
            for place, unit in record.posted.items():
                yield bytes.fromhex(unit), _Posted(record, place)


async def _row(unit_id: bytes, unit: Unit, run: _Posted | None, spent: SpentMoney, clock: _Clock) -> dict[str, Any]:
    paid, _ = paid_and_returned(unit)
    state = progress(unit)
    if unit.refund is not None:
        state = f"{state}, {unit.refund.name.lower().replace('_', ' ')}"
    return {
        "unit": unit_id,
        "state": state,
        "service": unit.service,
        "requests": unit.terms.requests,
        "cost_before_fees": Grains(paid + await spent.prepaid(unit)),
        "posted_in_block": unit.posted_at,
        "posted_about": clock.about(unit.posted_at),
        "ended_in_block": None if is_open(unit) else unit.ended_at,
        "ended_about": None if is_open(unit) else clock.about(unit.ended_at),
        "run": None if run is None else run_id(run.record.path),
    }


def _forgotten_row(unit_id: bytes, run: _Posted) -> dict[str, Any]:
    sums = run.record.sums.get(run.place)
    row = dict.fromkeys(COLUMNS) | {"unit": unit_id, "state": FORGOTTEN, "run": run_id(run.record.path)}
    return row if sums is None else row | {"cost_before_fees": Grains(sums.prepaid + sums.paid)}
