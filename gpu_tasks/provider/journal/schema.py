"""The file of a daemon's records: its tables, its errors, and how programs open it.

One SQLite file holds all records of a base path. The daemon is its sole owner. Commands may note pauses beside the
daemon, and read. Large contents (blobs, states, rows of roll calls) are files, and the records name them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from durable.database import Database, Schema, checked_table
from wallet.errors import CodedError

JOURNAL_FILE = "journal.db"
_STATEMENTS = (
    checked_table(
        "entries",
        ["kind TEXT NOT NULL", "key BLOB NOT NULL", "field TEXT NOT NULL", "value BLOB NOT NULL"],
        "UNIQUE (kind, key, field)",
    ),
    checked_table("finished", ["unit BLOB NOT NULL", "basis BLOB NOT NULL", "place INTEGER NOT NULL", "output BLOB"]),
    "CREATE INDEX finished_by_unit ON finished (unit)",
    checked_table("pauses", ["device BLOB PRIMARY KEY", "note TEXT NOT NULL"]),
    # Amounts have 128 bits and SQLite's integers 64, so each line is JSON.
    checked_table("earnings", ["name TEXT PRIMARY KEY", "line TEXT NOT NULL"]),
    checked_table("losses", ["name TEXT PRIMARY KEY", "line TEXT NOT NULL"]),
    checked_table("sent_proofs", ["claim BLOB PRIMARY KEY"]),
    checked_table(
        "sessions",
        [
            "session BLOB PRIMARY KEY",
            "device BLOB NOT NULL",
            "service INTEGER NOT NULL",
            "rate TEXT NOT NULL",
            "input_share INTEGER NOT NULL",
            "settlement_fee INTEGER NOT NULL",
            "since INTEGER NOT NULL",
        ],
    ),
    checked_table(
        "periods",
        [
            "session BLOB NOT NULL",
            "period INTEGER NOT NULL",
            "secret BLOB NOT NULL",
            "totals BLOB NOT NULL",
            "signature BLOB NOT NULL",
            "state INTEGER NOT NULL DEFAULT 0",
        ],
        "PRIMARY KEY (session, period)",
    ),
    checked_table(
        "exchanges",
        [
            "session BLOB NOT NULL",
            "period INTEGER NOT NULL",
            "place INTEGER NOT NULL",
            "request BLOB NOT NULL",
            "tokens BLOB NOT NULL",
        ],
        "PRIMARY KEY (session, period, place)",
        "FOREIGN KEY (session, period) REFERENCES periods ON DELETE CASCADE",
    ),
)
REMEDY = (
    "Restore it from a backup, or move it away. Without it, each race that is committed and not revealed may cost all "
    "its collateral"
)
SCHEMA = Schema("journal", 1, _STATEMENTS, REMEDY)

T = TypeVar("T")


class JournalError(CodedError):
    """The journal is unusable. The text states the remedy."""


def open_journal(path: Path, *, is_sole: bool = False, is_reader: bool = False) -> Database:
    """Open the file, or create it unless for a reader. It raises the errors of `Database`, as JournalError."""
    return Database(path, SCHEMA, JournalError, is_sole=is_sole, is_reader=is_reader)


def read_journal(base_path: Path, read: Callable[[Database], Iterable[T]]) -> list[T]:
    """Return all that `read` finds in the journal of a base path; nothing without a journal.

    A daemon may be writing it. Raise JournalError if it is unusable.
    """
    try:
        with open_journal(base_path / JOURNAL_FILE, is_reader=True) as database:
            return list(read(database))
    except FileNotFoundError:
        return []


def damaged(database: Database, reason: str) -> JournalError:
    """Return the error of a record that cannot be read."""
    return JournalError(f"{database.path} is damaged ({reason}). {REMEDY}", code="journal_damaged")
