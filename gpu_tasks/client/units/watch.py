"""Units as rows: followed until they end, in a table or as JSON lines, and listed with this machine's records.

Invariants:

* A unit has ended when it has ended in the final chain. A waiting, claimed, disputed or refunded unit has a reason, and
  so has a completion that cannot be shown. A claimed unit shows its completion at once.
* A list has one row for each unit that the chain knows, and for each forgotten one that a file's run here posted.
* Times are computed back from the final block by slots. They are called "about", because each empty slot makes the true
  time earlier.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.live import Live

from cli.chain_time import ChainTime, date_text, read_time
from cli.output import Output, fields_of, plain
from cli.session import note
from cli.tables import FittedTable
from gpu_tasks.client.buyer import accounts_of
from gpu_tasks.client.offers.outlook import slot_ms
from gpu_tasks.client.units.costs import NOTHING, SpentMoney, UnitSums, paid_and_returned
from gpu_tasks.client.units.file_plan import ACCOUNT
from gpu_tasks.client.units.pending_checks import pending_checks
from gpu_tasks.client.units.results import (
    NO_REQUEST,
    ResultError,
    answer_rows,
    attested_at,
    completions_of,
    has_answer,
    progress,
    why_refunded,
    winner_of,
)
from gpu_tasks.client.units.run_record import BatchRecord, run_id, runs_of
from gpu_tasks.client.units.wait_reasons import MarketView, look, why_queued
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.side_by_side import all_side_by_side
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, is_open, unit_id_of
from runtime.cryptography import ss58
from runtime.pallets.timestamp import Timestamp
from wallet.amounts import Grains, counted, format_amount
from wallet.client import ChainClient
from wallet.errors import harmless
from wallet.keypair import Keypair
from wallet.outbox import RecordError

UNITS_WATCHED_MAX = 1_024
SILENCE_SECONDS = 30.0
ROWS_AT_ONCE = 8
"""Completions fetched at once. One slow store does not delay the others."""
TEXT_SHOWN = 60
PROMPT_SHOWN = 30
WHOLE_IDS_SHOWN = 32
"""The most ids shown in full when all units have ended, for commands that take one. `--json` has all ids."""


@dataclass(frozen=True, slots=True)
class FollowedUnit:
    """A unit in a final block, with its completion. None stands for an unknown value."""

    unit: str
    """The unit's id: 0x and 64 digits."""
    prompt: str | None = None
    state: str | None = None
    racers: int | None = None
    attempt: int | None = None
    attested_in_block: int | None = None
    ended_in_block: int | None = None
    payee: str | None = None
    """The winner's address."""
    cost_ogpu: str | None = None
    sums: Any = None
    """The money locked, paid and returned, once the unit has ended."""
    completion: str | None = None
    answers: list[dict[str, Any]] | None = None
    """The answers of a batch, one for each request."""
    why: str | None = None
    """The reason why the unit or its payment waits, or why there is no completion."""
    claim: dict[str, Any] | None = None
    """The open claim of the answer."""
    dispute: dict[str, Any] | None = None
    """The open dispute about the result."""


@dataclass(slots=True)
class FollowedUnits:
    """Units by id, and the time at the newest final block; None before the first one."""

    rows: dict[bytes, FollowedUnit]
    now: ChainTime | None = None

    def standing(self) -> str:
        """Return a sentence: the number of ended units, and the reason why the first open one waits."""
        waiting = [row for row in self.rows.values() if row.ended_in_block is None]
        said = f"ended: {len(self.rows) - len(waiting)} of {counted(len(self.rows))}"
        if not waiting:
            return said
        first = waiting[0]
        why = f": {self.timed(first.why)}" if first.why else ""
        return f"{said}; {first.unit[:10]} is {first.state or 'not looked at yet'}{why}"

    def timed(self, text: str) -> str:
        """Return a text with a time behind each block that it names."""
        return text if self.now is None else self.now.timed(text)


async def follow(
    client: ChainClient, key: Keypair, followed: FollowedUnits, output: Output, prompts: dict[bytes, str]
) -> None:
    """Show units until all have ended, and keep their last views in `followed`."""
    ended: dict[bytes, UnitSums] = {}
    async with BlobClient(private=market_reads.is_development(client)) as blobs:
        changes = _changes(client, blobs, key, followed, prompts, ended)
        if output.as_json:
            async for height, changed in changes:
                for row in changed:
                    click.echo(json.dumps({"height": height, **plain(fields_of(row))}))
            return
        with Live(_table(followed), console=output.console, refresh_per_second=4) as live:
            async for _ in changes:
                live.update(_table(followed))
        if not output.console.is_terminal:
            output.console.line()  # `Live` ends its line on terminals only
        output.facts(sum(ended.values(), NOTHING).facts())
        click.echo(whole_ids(list(followed.rows.values())))


async def _changes(
    client: ChainClient, blobs: BlobClient, key: Keypair, followed: FollowedUnits,
    prompts: dict[bytes, str], ended: dict[bytes, UnitSums],
) -> AsyncIterator[tuple[int, list[FollowedUnit]]]:  # fmt: skip
    """Yield each final height with its changed rows until all units have ended. `followed` holds the newest of each.

    The sums of ended units go into `ended`.
    """
    rows = followed.rows
    waiting, spent = list(rows), SpentMoney(client)
    pace = await read_time(client, await client.finalized())
    async for _ in moments(client):
        final = await client.finalized()
        units = await market_reads.units(client, waiting, final)
        view = await look(client, units, final)
        changed = []
        looks = [
            partial(unit_view, client, blobs, key, unit_id, unit, prompts.get(unit_id), view, final, rows[unit_id])
            for unit_id, unit in zip(waiting, units, strict=True)
        ]
        found = await all_side_by_side(looks, at_once=ROWS_AT_ONCE)
        for unit_id, unit, seen in zip(list(waiting), units, found, strict=True):
            row = seen
            if unit is not None and not is_open(unit):
                ended[unit_id] = await spent.of(unit_id, unit)
                row = replace(seen, sums=plain(ended[unit_id].facts()))
            if row != rows[unit_id]:
                rows[unit_id] = row
                changed.append(row)
            if unit is not None and not is_open(unit):
                waiting.remove(unit_id)
        followed.now = replace(pace, height=await client.height(final))
        yield followed.now.height, changed
        if not waiting:
            return


async def moments(client: ChainClient) -> AsyncIterator[None]:
    """Yield at each final block that the node reports, and after a long silence.

    The reads that follow are proved. A node that does not answer them either ends the command.
    """
    while True:
        heads = await client.finalized_heads()
        try:
            while True:
                # A node can stop to report blocks and keep the connection open.
                async with asyncio.timeout(SILENCE_SECONDS):
                    await anext(heads)
                yield
        except TimeoutError:
            note(f"no block is final for {SILENCE_SECONDS:.0f} s: the chain stands still, or {client.rpc.url} does")
        yield


async def unit_view(
    client: ChainClient,
    blobs: BlobClient,
    key: Keypair,
    unit_id: bytes,
    unit: Unit | None,
    prompt: str | None,
    view: MarketView | None,
    block_hash: bytes | None = None,
    earlier: FollowedUnit | None = None,
) -> FollowedUnit:
    """Return the view of a unit at a block. `view` is needed for queued ones.

    A completion of the `earlier` view is not fetched again, because an answered unit gets no other one.
    """
    name = "0x" + unit_id.hex()
    if unit is None:
        return FollowedUnit(name, prompt, "not final yet, or not known any more")
    winner = winner_of(unit)
    row = FollowedUnit(
        unit=name,
        prompt=prompt,
        state=progress(unit),
        racers=len(unit.racers) or unit.terms.racers,
        attempt=unit.attempt,
        attested_in_block=attested_at(unit),
        ended_in_block=unit.ended_at or None,
        payee=ss58.encode(winner.owner) if winner else None,
        cost_ogpu=format_amount(unit.paid) if winner and unit.ended_at else None,
    )
    if has_answer(unit) and earlier is not None and earlier.completion is not None:
        row = replace(row, prompt=earlier.prompt, completion=earlier.completion, answers=earlier.answers)
    elif has_answer(unit):
        row = replace(row, **await _completion(client, blobs, key, unit_id, unit, block_hash))
    match unit.state:
        case UnitState.REFUNDED:
            return replace(row, why=why_refunded(unit))
        case UnitState.CLAIMED | UnitState.DISPUTED:
            pending = await pending_checks(client, unit_id, unit, block_hash)
            if pending is None:
                return row
            why = "; ".join(filter(None, (row.why, pending.says())))
            return replace(row, why=why, claim=pending.claim_facts(), dispute=pending.dispute_facts())
        case _:
            return (
                row if view is None or unit.state is not UnitState.QUEUED else replace(row, why=why_queued(unit, view))
            )


async def _completion(
    client: ChainClient, blobs: BlobClient, key: Keypair, unit_id: bytes, unit: Unit, block_hash: bytes | None
) -> dict[str, Any]:
    """Return the fields of an answered unit's view with its completion."""
    try:
        found = await completions_of(client, blobs, key, unit_id, unit, block_hash)
    except ResultError as error:
        return {"why": str(error)}
    if len(found) == 1:
        return {"prompt": found[0].prompt, "completion": found[0].output}
    answered = [each for each in found if each.output is not None]
    first = f"; the first: {answered[0].output}" if answered else f": {NO_REQUEST}"
    return {"completion": f"{len(answered)} of {len(found)} answered{first}", "answers": answer_rows(found)}


def whole_ids(rows: Sequence[FollowedUnit]) -> str:
    """List the ids that the table shortens, one per line. On another machine their first digits match nothing."""
    more = [f"and {len(rows) - WHOLE_IDS_SHOWN} more: `ogpu --json` tells all"] if len(rows) > WHOLE_IDS_SHOWN else []
    return "\n".join(
        ["for `ogpu unit result` and `ogpu unit show`:", *(row.unit for row in rows[:WHOLE_IDS_SHOWN]), *more]
    )


def _table(followed: FollowedUnits) -> FittedTable:
    title = counted(len(followed.rows))
    title += "" if followed.now is None else f" at block {followed.now.height}"
    columns = ("unit", "state", "racers", "block", "payee", "oGPU", "prompt", "completion, or why it waits")
    texts = []
    for row in followed.rows.values():
        cells: list[str | int | None] = [row.unit[:10], row.state, row.racers, row.attested_in_block]
        cells += [row.payee[:8] if row.payee else None, row.cost_ogpu, _shortened(row.prompt, PROMPT_SHOWN)]
        # a reason is read to its end, a completion by `ogpu unit result`
        reason = harmless(followed.timed(row.why)) if row.why else None
        cells.append(" - ".join(filter(None, (_shortened(row.completion, TEXT_SHOWN), reason))))
        texts.append(["" if cell is None else str(cell) for cell in cells])
    return FittedTable(title, columns, texts)


def _shortened(text: str | None, length: int) -> str | None:
    """Return one line of a text."""
    if text is None:
        return None
    # Providers write completions, and customers run this in a terminal.
    line = harmless(text).replace("\n", " ")
    return line if len(line) <= length else line[: length - 1] + "…"


UNITS_LISTED_MAX = 500
"""The most units of an account in one list, the newest first."""
UNIT_COLUMNS_SHOWN = (
    "unit", "state", "service", "cost_before_fees", "posted_in_block", "posted_about", "ended_about", "run",
)  # fmt: skip
"""The columns for people."""
ID_BYTES_SHOWN = 4
FORGOTTEN = "forgotten by the chain"


@dataclass(frozen=True, slots=True)
class ListedUnit:
    """A unit of an account. None: the chain has forgotten it, and its run's record lacks the value."""

    unit: bytes
    state: str
    service: int | None = None
    requests: int | None = None
    cost_before_fees: Grains | None = None
    posted_in_block: int | None = None
    posted_about: str | None = None
    ended_in_block: int | None = None
    ended_about: str | None = None
    run: str | None = None
    """The run of a file on this machine that posted the unit."""


UNIT_COLUMNS = tuple(each.name for each in fields(ListedUnit))


@dataclass(frozen=True, slots=True)
class UnitList:
    """The units, the oldest first, and the number of omitted older ones."""

    rows: list[ListedUnit]
    left_out: int


async def newest_units(client: ChainClient, account: bytes, block_hash: bytes) -> tuple[dict[bytes, Unit | None], int]:
    """Return the account's newest units by id, None for a forgotten one, and the number of older ones."""
    count = await client.read(InferenceMarket.post_counts, account, at=block_hash)
    first = max(0, count - UNITS_LISTED_MAX)
    ids = [unit_id_of(client.genesis_hash, account, number) for number in range(first, count)]
    return dict(zip(ids, await market_reads.units(client, ids, block_hash), strict=True)), first


@dataclass(frozen=True, slots=True)
class _Clock:
    """A final block and its time, in Unix milliseconds."""

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
    """List the units of the account, and of the budgets that its key may spend, at the final block.

    `records` is the folder of file runs.
    """
    block_hash, units, left_out = await client.finalized(), dict[bytes, Unit | None](), 0
    customers = await accounts_of(client, account)
    for customer in customers:
        newest, older = await newest_units(client, customer, block_hash)
        units |= newest
        left_out += older
    clock = _Clock(await client.height(block_hash), await client.read(Timestamp.now, at=block_hash), slot_ms(client))
    posted, spent = dict(_posted(records, customers)), SpentMoney(client)
    rows = []
    for unit_id, unit in units.items():
        run = posted.get(unit_id)
        if unit is not None:
            rows.append(await _listed(unit_id, unit, run, spent, clock))
        elif run is not None:
            rows.append(_forgotten(unit_id, run))
    return UnitList(rows, left_out)


def shown(row: ListedUnit) -> dict[str, Any]:
    """Shorten ids for people, to prefixes that every command accepts."""
    return fields_of(row) | {"unit": row.unit[:ID_BYTES_SHOWN]}


def _posted(records: Path, customers: Sequence[bytes]) -> Iterator[tuple[bytes, _Posted]]:
    """Yield the units of the runs of some customers, by their ids."""
    named = {customer.hex() for customer in customers}
    found: list[BatchRecord] = []
    # A person with a damaged outbox needs this list, so the outbox may only add to it.
    with contextlib.suppress(RecordError):
        found = runs_of(records)
    for record in found:
        if record.plan is not None and record.plan.settings.get(ACCOUNT) in named:
            for place, unit in record.posted.items():
                yield bytes.fromhex(unit), _Posted(record, place)


async def _listed(unit_id: bytes, unit: Unit, run: _Posted | None, spent: SpentMoney, clock: _Clock) -> ListedUnit:
    paid, _ = paid_and_returned(unit)
    state = progress(unit)
    if unit.refund is not None:
        state = f"{state}, {unit.refund.name.lower().replace('_', ' ')}"
    return ListedUnit(
        unit=unit_id,
        state=state,
        service=unit.service,
        requests=unit.terms.requests,
        cost_before_fees=Grains(paid + await spent.prepaid(unit)),
        posted_in_block=unit.posted_at,
        posted_about=clock.about(unit.posted_at),
        ended_in_block=None if is_open(unit) else unit.ended_at,
        ended_about=None if is_open(unit) else clock.about(unit.ended_at),
        run=None if run is None else run_id(run.record),
    )


def _forgotten(unit_id: bytes, run: _Posted) -> ListedUnit:
    sums = run.record.sums.get(run.place)
    cost = None if sums is None else Grains(sums.prepaid + sums.paid)
    return ListedUnit(unit_id, FORGOTTEN, cost_before_fees=cost, run=run_id(run.record))
