"""The intent journal: promises and results that survive kill -9 and power loss.

Invariants:

* A change is on the disk when its call returns, so the journal knows every step that follows.
* The records of one step are one commit: after a crash all of them are there, or none.
* Damage is an error, because forgotten commitments cost the bond.
* Two daemons never share a journal.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, TypeVar

from gpu_tasks.provider.journal.records import FindingEntry, RaceEntry, VoteEntry
from gpu_tasks.provider.journal.schema import JournalError, damaged, open_journal
from gpu_tasks.provider.journal.table import FieldRow, JournalTable, UnknownFieldError
from gpu_tasks.provider.journal.task_records import TaskEntry, TaskKey
from runtime.encoding.codec import U8, U32, DecodeError
from runtime.encoding.types import Hash

COMPACT_ABOVE_BYTES = 16 * 1024 * 1024
ENDED_KEPT = 1_000
_WRITE = (
    "INSERT INTO entries (kind, key, field, value) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (kind, key, field) DO UPDATE SET value = excluded.value"
)

RaceKey = tuple[bytes, int]
FindingKey = tuple[bytes, int]
"""A claim, and the number of the check."""
VoteKey = tuple[bytes, int]
"""A dispute, and the number of the round."""

EndingEntry = TypeVar("EndingEntry", RaceEntry, TaskEntry)


class Journal:
    """An open journal, with its entries in `races`, `tasks`, `findings` and `votes`."""

    def __init__(self, path: Path, *, is_reader: bool = False) -> None:
        """Read the file, or create it. Raise JournalError if it is damaged or in use by another daemon.

        A reader may read a file that a daemon is writing, and changes nothing.
        """
        self.path = path
        self.database = open_journal(path, is_sole=not is_reader, is_reader=is_reader)
        self.races: JournalTable[RaceKey, RaceEntry] = self._table("races", tuple[Hash, U32], RaceEntry)
        self.tasks: JournalTable[TaskKey, TaskEntry] = self._table("tasks", tuple[Hash, U8], TaskEntry)
        self.findings: JournalTable[FindingKey, FindingEntry] = self._table("findings", tuple[Hash, U8], FindingEntry)
        self.votes: JournalTable[VoteKey, VoteEntry] = self._table("votes", tuple[Hash, U8], VoteEntry)
        self._tables: tuple[JournalTable[Any, Any], ...] = (
            self.races, self.tasks, self.findings, self.votes,
        )  # fmt: skip
        try:
            self._load()
            if not is_reader and self._used_bytes() > COMPACT_ABOVE_BYTES:
                self._drop_ended()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the file for another daemon."""
        self.database.close()

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Make all records of the block one commit, also those of other books of this journal's database.

        The block must not await: records of other tasks would become a part of the step. If it raises, none of its
        records is on the disk or in memory.
        """
        try:
            with self.database.transaction():
                yield
        except BaseException:
            self._load()
            raise

    def open_races(self) -> Iterator[tuple[RaceKey, RaceEntry]]:
        """Return the races that are not over."""
        return ((key, entry) for key, entry in self.races.items() if entry.end is None)

    def open_findings(self) -> Iterator[tuple[FindingKey, FindingEntry]]:
        """Return the findings about claims that are not over."""
        return ((key, entry) for key, entry in self.findings.items() if not entry.is_over)

    def open_votes(self) -> Iterator[tuple[VoteKey, VoteEntry]]:
        """Return the votes in disputes that are not over."""
        return ((key, entry) for key, entry in self.votes.items() if not entry.is_over)

    def open_tasks(self) -> Iterator[tuple[TaskKey, TaskEntry]]:
        """Return the bids with possible work left."""
        return ((key, entry) for key, entry in self.tasks.items() if entry.end is None)

    def _table(self, kind: str, key: Any, entry_class: type[Any]) -> JournalTable[Any, Any]:
        return JournalTable(kind, key, entry_class, self._write, self._delete)

    def _write(self, rows: Collection[FieldRow]) -> None:
        """Write rows. They are on the disk when this returns, or when the step ends. Raise JournalError on failure."""
        with self.database.transaction() as connection:
            connection.executemany(_WRITE, rows)

    def _delete(self, kind: str, keys: Collection[bytes]) -> None:
        with self.database.transaction() as connection:
            connection.executemany("DELETE FROM entries WHERE kind = ? AND key = ?", [(kind, key) for key in keys])

    def _load(self) -> None:
        """Take all entries of the file into memory. Raise JournalError if one cannot be read."""
        rows_by_kind: dict[str, list[FieldRow]] = defaultdict(list)
        # In the order of creation: an update keeps a row's place.
        for columns in self.database.rows("SELECT kind, key, field, value FROM entries ORDER BY rowid"):
            row = FieldRow(*columns)
            rows_by_kind[row.kind].append(row)
        try:
            for table in self._tables:
                table.load(rows_by_kind.pop(table.kind, []))
        except DecodeError as error:
            raise damaged(self.database, str(error)) from error
        except UnknownFieldError as error:
            raise self._too_new(f"the field {error}") from error
        # A record that this release does not know may hold a promise, so it is never skipped.
        if rows_by_kind:
            raise self._too_new(f"entries of {next(iter(rows_by_kind))}")

    def _used_bytes(self) -> int:
        [(pages, free_pages, page_bytes)] = self.database.rows(
            "SELECT (SELECT page_count FROM pragma_page_count), (SELECT freelist_count FROM pragma_freelist_count), "
            "(SELECT page_size FROM pragma_page_size)"
        )
        return int((pages - free_pages) * page_bytes)

    def _drop_ended(self) -> None:
        """Drop the results of ended races and tasks, and the oldest ended entries. New records take their space."""
        with self.step():
            _drop_ended(self.races)
            _drop_ended(self.tasks)
            self.findings.remove([key for key, entry in self.findings.items() if entry.is_over])
            self.votes.remove([key for key, entry in self.votes.items() if entry.is_over])

    def _too_new(self, reason: str) -> JournalError:
        return JournalError(
            f"{self.path} was written by a newer release ({reason}); install that release or a later one",
            code="journal_too_new",
        )


def _drop_ended(table: JournalTable[tuple[bytes, int], EndingEntry]) -> None:
    """Drop the ended entries except the newest `ENDED_KEPT`, and the results of those."""
    ended_keys = [key for key, entry in table.items() if entry.end is not None]
    dropped_count = max(0, len(ended_keys) - ENDED_KEPT)
    table.remove(ended_keys[:dropped_count])
    for key in ended_keys[dropped_count:]:
        if table[key].result is not None:
            table.change(key, result=None)
