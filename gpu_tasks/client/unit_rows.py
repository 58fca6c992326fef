"""The units of an account as rows, from the chain and from this machine's records.

Always: one row for each unit that the chain knows, and for each that a file's run here posted and the chain has
forgotten; times are reckoned back from the final block by slots, so they are called "about": each slot without a block
makes them later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.chain_time import date_text
from gpu_tasks.client.batches.record import BatchRecord
from gpu_tasks.client.batches.runs import run_id, runs_of
from gpu_tasks.client.costs.spent import SpentMoney, paid_and_returned
from gpu_tasks.client.file_runs.plan import ACCOUNT
from gpu_tasks.client.outlook import slot_ms
from gpu_tasks.client.results import progress
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, is_open, unit_id_of
from runtime.pallets.timestamp import Timestamp
from wallet.amounts import Grains
from wallet.client import ChainClient

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
