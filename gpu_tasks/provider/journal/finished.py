"""The finished requests of a batch in progress, on disk, so that a crash does not repeat their computation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from durable.database import Database
from gpu_tasks.provider.journal.records import Basis
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import codec

_BASIS = codec(Basis)


class FinishedRequests:
    """The finished requests of one unit, for one input and workload. Later attempts reuse them."""

    def __init__(self, database: Database, unit_id: bytes, basis: Basis) -> None:
        """Read the rows of a journal's database."""
        self._database, self._unit_id = database, unit_id
        self._basis = blake2_256(_BASIS.encode(basis))
        self.outputs: dict[int, bytes | None] = dict(
            database.rows(
                "SELECT place, output FROM finished WHERE unit = ? AND basis = ? ORDER BY rowid", unit_id, self._basis
            )
        )
        """Outputs by place; None for an invalid request."""

    def append(self, outputs: Sequence[tuple[int, bytes | None]]) -> None:
        """Append finished requests, as one commit. Raise JournalError on failure."""
        with self._database.transaction() as connection:
            connection.executemany(
                "INSERT INTO finished (unit, basis, place, output) VALUES (?, ?, ?, ?)",
                [(self._unit_id, self._basis, place, output) for place, output in outputs],
            )
        self.outputs.update(outputs)


def all_finished(database: Database) -> list[tuple[bytes, int]]:
    """Return the unit and place of each record, in order, even while another process writes."""
    return database.rows("SELECT unit, place FROM finished ORDER BY rowid")


def forget(database: Database, unit_id: bytes) -> None:
    """Remove the records of a unit."""
    database.execute("DELETE FROM finished WHERE unit = ?", unit_id)


def forget_others(database: Database, unit_ids: Iterable[bytes]) -> None:
    """Remove the records of all units except these."""
    kept_ids = set(unit_ids)
    with database.transaction():
        for (unit_id,) in database.rows("SELECT DISTINCT unit FROM finished"):
            if unit_id not in kept_ids:
                forget(database, unit_id)
