"""The purchases of this machine on a chain: units and sessions, and the cost of each, in one file.

Invariants:

* A purchase has one row. It is written after the purchase is final, and changes until the end of the purchase is known.
* A file that cannot be written never stops a purchase. A note tells the user.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cli.session import WalletSession, note
from durable.database import Database, Schema, checked_table
from gpu_tasks.client.buyer import Buyer
from gpu_tasks.client.sessions.session_reads import KnownSession, unclaimed
from gpu_tasks.client.units.costs import SpentMoney, paid_and_returned
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.units import is_open
from gpu_tasks.market.sessions.events import SessionEnded
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.workloads import model_forms
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.rpc import OddAnswerError, RpcError

FOLDER = "spending"
UNIT, SESSION = "unit", "session"
OPEN, KNOWN, ESTIMATED = "open", "known", "estimated"
"""The states of a row: the purchase goes on, its cost is that of the chain, or the chain forgot its end."""
BYTES_MAX = 1024**3
READ_AT_ONCE = 512
STATES_KEPT = 48
"""A node keeps the states of this many past blocks."""
_COLUMNS = "id, kind, key, model, bought_at, fees, paid, state"
_SCHEMA = Schema(
    "spending",
    1,
    (
        checked_table(
            "purchases",
            [
                "id BLOB NOT NULL", "kind TEXT NOT NULL", "key BLOB NOT NULL", "model TEXT NOT NULL",
                "bought_at INTEGER NOT NULL", "fees INTEGER NOT NULL", "paid INTEGER NOT NULL", "state TEXT NOT NULL",
            ],
            "PRIMARY KEY (id)",
        ),
    ),
    "Move it away. `ogpu spend` then begins anew",
    bytes_max=BYTES_MAX,
)  # fmt: skip


class SpendingError(WalletError):
    """The file of purchases cannot be used."""


@dataclass(frozen=True, slots=True)
class BoughtItem:
    """A unit or a session. Amounts are grains."""

    id: bytes
    kind: str
    key: bytes
    """The key that signed."""
    model: str
    bought_at: int
    """Unix seconds."""
    fees: int
    """Transaction fees, and the prepaid duty calls of a unit."""
    paid: int
    """The money paid to providers and checkers, or burned. For an open session, its cost if it ended at this block."""
    state: str = OPEN

    @property
    def cost(self) -> int:
        """All money spent so far."""
        return self.fees + self.paid


class SpendingFile:
    """The purchases of one chain. Several processes may have it open."""

    def __init__(self, path: Path) -> None:
        """Open the file, or create it. Raise SpendingError if it cannot be used."""
        self._database = Database(path, _SCHEMA, SpendingError)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def items(self) -> list[BoughtItem]:
        """Return all purchases, oldest first."""
        return [
            BoughtItem(*row)
            for row in self._database.rows(f"SELECT {_COLUMNS} FROM purchases ORDER BY bought_at, id")  # noqa: S608
        ]

    def known(self, ids: Iterable[bytes]) -> set[bytes]:
        """Return those of some ids that have a row."""
        return {each for each in ids if self._database.rows("SELECT 1 FROM purchases WHERE id = ?", each)}

    def add(self, items: Sequence[BoughtItem]) -> None:
        """Write rows. An existing row stays."""
        with self._database.transaction() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO purchases VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (each.id, each.kind, each.key, each.model, each.bought_at, each.fees, each.paid, each.state)
                    for each in items
                ],
            )

    def add_fee(self, item_id: bytes, fee: int) -> None:
        """Add the fee of a later call to a row, if there is one."""
        self._database.execute("UPDATE purchases SET fees = fees + ? WHERE id = ?", fee, item_id)

    def settle(self, changes: Sequence[tuple[bytes, int, str]]) -> None:
        """Write what purchases have paid by now, and their states."""
        with self._database.transaction() as connection:
            connection.executemany(
                "UPDATE purchases SET paid = ?, state = ? WHERE id = ?",
                [(paid, state, item_id) for item_id, paid, state in changes],
            )


@contextmanager
def spending(session: WalletSession, client: ChainClient) -> Iterator[SpendingFile]:
    """Open the file of this machine for a chain. Raise SpendingError if it cannot be used."""
    file = SpendingFile(session.keyring.folder / FOLDER / f"{client.genesis_hash.hex()}.db")
    try:
        yield file
    finally:
        file.close()


async def note_units(
    session: WalletSession, client: ChainClient, buyer: Buyer, service: int, units: Sequence[bytes]
) -> None:
    """Write rows for units in final blocks that have none."""
    try:
        with spending(session, client) as file:
            known = file.known(units)
            new = [unit for unit in units if unit not in known]
            if not new:
                return
            final, spent, now = await client.finalized(), SpentMoney(client), int(time.time())
            sold = await market_reads.service(client, service, final)
            model = f"service {service}" if sold is None else model_name(sold.terms.workload, sold.terms.model)
            rows = []
            for unit_id, unit in zip(new, await market_reads.units(client, new, final), strict=True):
                if unit is not None:
                    sums = await spent.of(unit_id, unit)
                    fees = sums.prepaid + (sums.fees or 0)
                    rows.append(BoughtItem(unit_id, UNIT, buyer.signer, model, now, fees, sums.paid))
            file.add(rows)
    except SpendingError as error:
        note(f"{error}. `ogpu spend` will not show these units")


def note_session(
    session: WalletSession, client: ChainClient, buyer: Buyer, session_id: bytes, model: str, fee: int
) -> None:
    """Write a row for a session that was opened."""
    try:
        with spending(session, client) as file:
            file.add([BoughtItem(session_id, SESSION, buyer.signer, model, int(time.time()), fee, 0)])
    except SpendingError as error:
        note(f"{error}. `ogpu spend` will not show this session")


def note_closing(session: WalletSession, client: ChainClient, found: KnownSession, fee: int, folder: Path) -> None:
    """Note the fee of closing a session or handing it over, and the cost of the session so far."""
    try:
        with spending(session, client) as file:
            file.add_fee(found.id, fee)
            file.settle([(found.id, cost_so_far(found, folder), OPEN)])
    except SpendingError as error:
        note(f"{error}. `ogpu spend` will not show this fee")


def model_name(workload: bytes, model: bytes) -> str:
    """Return the name of a model, or its id in hexadecimal."""
    form = model_forms.form_of(workload, model)
    return f"0x{model.hex()}" if form is None else form.name


async def settle(client: ChainClient, file: SpendingFile, sessions: Path) -> None:
    """Bring the rows of open purchases up to date. `sessions` is the folder with this machine's vouchers."""
    unsettled = [item for item in file.items() if item.state == OPEN]
    final = await client.finalized()
    for first in range(0, len(unsettled), READ_AT_ONCE):
        part = unsettled[first : first + READ_AT_ONCE]
        file.settle([*await _units(client, part, final), *await _sessions(client, part, final, sessions)])


async def _units(client: ChainClient, items: Sequence[BoughtItem], final: bytes) -> list[tuple[bytes, int, str]]:
    ids = [item.id for item in items if item.kind == UNIT]
    changes = []
    for unit_id, unit in zip(ids, await market_reads.units(client, ids, final) if ids else [], strict=True):
        if unit is None:
            changes.append((unit_id, 0, ESTIMATED))
        elif not is_open(unit):
            changes.append((unit_id, paid_and_returned(unit)[0], KNOWN))
    return changes


async def _sessions(
    client: ChainClient, items: Sequence[BoughtItem], final: bytes, folder: Path
) -> list[tuple[bytes, int, str]]:
    bought = [item for item in items if item.kind == SESSION]
    ids = [item.id for item in bought]
    records = await client.read_many(Sessions.sessions, ids, at=final) if ids else []
    height, changes, gone = await client.height(final), list[tuple[bytes, int, str]](), list[BoughtItem]()
    for item, record in zip(bought, records, strict=True):
        if record is None:
            gone.append(item)
        else:
            changes.append((item.id, cost_so_far(KnownSession(item.id, record, height), folder), OPEN))
    # The chain forgets a session at its end, and nodes keep the events of the newest blocks alone.
    ended = await _ended_sessions(client, height) if gone else {}
    for item in gone:
        is_known = item.id in ended
        changes.append((item.id, ended.get(item.id, item.paid), KNOWN if is_known else ESTIMATED))
    return changes


async def _ended_sessions(client: ChainClient, height: int) -> dict[bytes, int]:
    """Return what the sessions that ended in the newest final blocks have paid."""
    paid = dict[bytes, int]()
    for block in reversed(await client.final_ids(max(1, height - STATES_KEPT), height)):
        try:
            records = await client.events(block)
        except (RpcError, OddAnswerError):  # older than the states of this node
            break
        paid |= {each.event.session: each.event.paid for each in records if isinstance(each.event, SessionEnded)}
    return paid


def cost_so_far(found: KnownSession, folder: Path) -> int:
    """Return what a session costs if it ends now: its claims, its vouchers, or the least pay of its place."""
    record = found.record
    place = record.place_rate * (found.height - record.legs[0].since) if record.legs else 0
    return min(record.deposit, max(found.spent + (unclaimed(found, folder) or 0), place))
