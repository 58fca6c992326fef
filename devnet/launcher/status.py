"""The status of a devnet's nodes: read from their metrics, shown as a table or as JSON.

Invariant: a query never changes a node. A node without an answer within `ASK_SECONDS_MAX` is shown as down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from cli.tables import FittedTable
from devnet.launcher.layout import Devnet, NodeLayout
from genesis import dev_accounts
from runtime.cryptography.ss58 import encode as ss58

ASK_SECONDS_MAX = 2.0
FIGURES = {
    "accepted": "accepted",
    "final": "final",
    "peers": "peers",
    "pool": "ready",
    "units": "units",
    "attested": "attested",
    "claims": "open_claims",
    "wrong": "found_wrong",
    "disputes": "open_disputes",
    "stake": "stake",
    "seat": "seat",
    "next": "next_seat",
}
"""The columns of the table, with the fields of `MemberStatus` in them."""
PROCESS_COLUMNS, LAST_COLUMNS = ("node", "state", "provider"), ("restarts", "rpc")
FIRST_FIGURES = ("accepted", "final", "peers")
"""The columns beside the state in the first of three tables."""
CLAIM_FIGURES = ("claims", "wrong", "disputes")
"""The columns of the last of three tables."""
WIDTH_MEASURED = 10_000


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """The status of one node. Heights are -1 without an answer."""

    name: str
    is_validator: bool
    is_up: bool
    is_rpc_up: bool
    accepted: int
    final: int
    peers: int
    ready: int
    units: int  # open units
    attested: int  # attestations in the final chain
    stash: str  # a validator's bonded account
    stake: int  # its own and its delegators' stake, in oGPU
    seat: int  # the weight of its seat, in oGPU; 0 without a seat
    next_seat: int  # the same in the next epoch
    is_jailed: bool
    queue: int  # rank by stake among those without a seat in this and the next epoch; 0: not waiting
    starts_at: int  # Unix time of the process's start; 0 without an answer
    rpc: str
    claims: dict[str, int] = field(default_factory=dict)
    """Open claims of results, by stage."""
    claims_ended: dict[str, int] = field(default_factory=dict)
    """Ended claims since the start of the process, by outcome."""
    disputes: dict[str, int] = field(default_factory=dict)
    """Open disputes about items and inputs, by stage."""
    disputes_ended: dict[str, int] = field(default_factory=dict)

    @property
    def open_claims(self) -> int:
        """The number of open claims."""
        return sum(self.claims.values())

    @property
    def found_wrong(self) -> int:
        """Refuted claims since the start of the process."""
        return self.claims_ended.get("refuted", 0)

    @property
    def open_disputes(self) -> int:
        """The number of open disputes."""
        return sum(self.disputes.values())


@dataclass(frozen=True, slots=True)
class MemberProcesses:
    """The processes of a member: the restarts of its node, and the state of its provider."""

    restarts: int
    provider: str | None
    """`runs` or `down`, or None without a provider."""


async def ask_all(devnet: Devnet) -> list[MemberStatus]:
    """Return the status of each node, in the order of the members."""
    timeout = aiohttp.ClientTimeout(total=ASK_SECONDS_MAX)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        return _queued(list(await asyncio.gather(*(_ask(session, member) for member in devnet.members))))


def answers(port: int) -> bool:
    """Return whether a node's JSON-RPC answers on this port."""

    async def ask() -> bool:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ASK_SECONDS_MAX)) as session:
            return await _rpc(session, port)

    return asyncio.run(ask())


async def _ask(session: aiohttp.ClientSession, member: NodeLayout) -> MemberStatus:
    figures, is_rpc_up = await asyncio.gather(_metrics(session, member), _rpc(session, member.ports.rpc))
    return MemberStatus(
        name=member.name,
        is_validator=member.is_validator,
        is_up=bool(figures),
        is_rpc_up=is_rpc_up,
        accepted=figures.get("substrate_block_height/best", -1),
        final=figures.get("substrate_block_height/finalized", -1),
        peers=figures.get("substrate_sub_libp2p_peers_count", 0),
        ready=figures.get("substrate_ready_transactions_number", 0),
        units=figures.get("ogpu_open_units", 0),
        attested=figures.get("ogpu_attestations", 0),
        stash=ss58(dev_accounts.stash(member.name)) if member.is_validator else "",
        stake=figures.get("ogpu_stake", 0),
        seat=figures.get("ogpu_seat", 0),
        next_seat=figures.get("ogpu_next_seat", 0),
        is_jailed=bool(figures.get("ogpu_jailed", 0)),
        queue=0,
        starts_at=figures.get("substrate_process_start_time_seconds", 0),
        rpc=member.rpc_url,
        claims=_by_label(figures, "ogpu_claims"),
        claims_ended=_by_label(figures, "ogpu_claims_ended_total"),
        disputes=_by_label(figures, "ogpu_disputes"),
        disputes_ended=_by_label(figures, "ogpu_disputes_ended_total"),
    )


def _by_label(figures: dict[str, int], metric: str) -> dict[str, int]:
    """Return the values of a metric by its label."""
    return {key.partition("/")[2]: figure for key, figure in figures.items() if key.startswith(f"{metric}/")}


def _queued(standing: list[MemberStatus]) -> list[MemberStatus]:
    """Return the statuses with the queue ranks. An election takes the waiting validator with the most stake first."""
    waiting = [status for status in standing if status.is_up and status.stake and not status.is_jailed]
    waiting = [status for status in waiting if not status.seat and not status.next_seat]
    ranks = {status.name: rank for rank, status in enumerate(sorted(waiting, key=lambda status: -status.stake), 1)}
    return [replace(status, queue=ranks.get(status.name, 0)) for status in standing]


async def _metrics(session: aiohttp.ClientSession, member: NodeLayout) -> dict[str, int]:
    """Return the metrics of a node by name, or by `name/label` where a metric has labels. Empty without an answer."""
    try:
        async with session.get(f"http://127.0.0.1:{member.ports.metrics}/metrics") as answer:
            metrics = await answer.text()
    except (aiohttp.ClientError, TimeoutError):
        return {}
    figures = {}
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            label = sample.labels.get("status") or sample.labels.get("outcome")
            figures[f"{sample.name}/{label}" if label else sample.name] = int(sample.value)
    return figures


async def _rpc(session: aiohttp.ClientSession, port: int) -> bool:
    """Return whether the RPC process answers."""
    question: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "system_health", "params": []}
    try:
        async with session.post(f"http://127.0.0.1:{port}", json=question) as answer:
            return "result" in await answer.json()
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return False


def as_json(standing: list[MemberStatus], processes_by_name: dict[str, MemberProcesses]) -> list[dict[str, Any]]:
    """Return the statuses for JSON."""
    return [asdict(status) | asdict(processes_by_name[status.name]) for status in standing]


@dataclass(frozen=True, slots=True)
class StatusTable:
    """A table of the statuses for people: the first of several forms that fits the console without cut cells.

    The forms are one table, three tables, and records.
    """

    standing: list[MemberStatus]
    beside: dict[str, MemberProcesses]
    title: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the tables, as `rich` requires."""
        all_columns = (*PROCESS_COLUMNS, *FIGURES, *LAST_COLUMNS)
        elsewhere = (*FIRST_FIGURES, *CLAIM_FIGURES)
        narrow_groups = (
            (*PROCESS_COLUMNS, *FIRST_FIGURES, "rpc"),
            ("node", *(column for column in FIGURES if column not in elsewhere), "restarts"),
            ("node", *CLAIM_FIGURES),
        )
        # A measurement is cut to the console's width, so it is made for a very wide one.
        measured = options.update(width=WIDTH_MEASURED)
        for column_groups in ((all_columns,), narrow_groups):
            tables = [
                self._table(None if index else self.title, columns) for index, columns in enumerate(column_groups)
            ]
            if all(Measurement.get(console, measured, table).maximum <= options.max_width for table in tables):
                yield from tables
                return
        cell_rows = [_cells(status, self.beside[status.name]) for status in self.standing]
        plain_rows = [[Text.from_markup(cells[column]).plain for column in all_columns] for cells in cell_rows]
        yield FittedTable(self.title, all_columns, plain_rows)

    def _table(self, title: str | None, columns: Sequence[str]) -> Table:
        table = Table(title=title, title_justify="left")
        for column in columns:
            table.add_column(column, justify="left" if column in PROCESS_COLUMNS else "right", no_wrap=True)
        for status in self.standing:
            cells = _cells(status, self.beside[status.name])
            table.add_row(*(cells[column] for column in columns))
        return table


def _cells(status: MemberStatus, processes: MemberProcesses) -> dict[str, str]:
    """Return a node's cell of each column."""
    return {
        "node": status.name,
        "state": _state(status),
        "provider": "[red]down" if processes.provider == "down" else processes.provider or "-",
        **{column: str(getattr(status, field_name)) if status.is_up else "-" for column, field_name in FIGURES.items()},
        "restarts": str(processes.restarts),
        "rpc": status.rpc.rpartition(":")[2] if status.is_rpc_up else "-",
    }


def _state(status: MemberStatus) -> str:
    if not status.is_up:
        return "[red]down"
    if not status.is_validator:
        return "follows"
    if status.is_jailed:
        return "[red]in jail" + (", sits" if status.seat else "")
    if status.seat:
        return "sits" if status.next_seat else "sits, leaves"
    if status.next_seat:
        return "is elected"
    return f"waits, no. {status.queue}" if status.queue else "waits"
