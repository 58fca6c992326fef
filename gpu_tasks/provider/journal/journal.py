"""The intent journal: an append-only file that survives kill -9 and power loss.

    file = record*        record = length u32 || blake2-128 of the body || body

`table` defines the body.

Invariants:

* A change is on the disk when its call returns, so the journal knows every step that follows.
* A record torn by a crash is cut off at the next start. Damage anywhere else is an error, because forgotten commitments
  cost the bond.
* Two daemons never share a journal.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from gpu_tasks.provider.journal.records import CaseEntry, RaceEntry
from gpu_tasks.provider.journal.table import JournalTable
from gpu_tasks.provider.journal.task_records import TaskEntry, TaskKey
from runtime.cryptography.hashing import blake2_128
from runtime.encoding.codec import U8, U32, DecodeError
from runtime.encoding.types import Hash
from wallet.errors import CodedError
from wallet.private_file import lock_file, sync_folder

HEADER_BYTES = 20
RECORD_BYTES_MAX = 2 * 1024 * 1024
COMPACT_ABOVE_BYTES = 16 * 1024 * 1024
ENDED_KEPT = 1_000

RaceKey = tuple[bytes, int]
CaseKey = tuple[bytes, int]

EndingEntry = TypeVar("EndingEntry", RaceEntry, TaskEntry)


class JournalError(CodedError):
    """The journal is unusable. The text states the remedy."""


class Journal:
    """An open journal, with its entries in `races`, `cases` and `tasks`."""

    def __init__(self, path: Path, *, is_reader: bool = False) -> None:
        """Read the file, or create it. Raise JournalError if it is damaged or in use by another daemon.

        A reader may read a file that a daemon is writing, and changes nothing.
        """
        self.path = path
        self.races: JournalTable[RaceKey, RaceEntry] = JournalTable(0, tuple[Hash, U32], RaceEntry, self._append)
        self.cases: JournalTable[CaseKey, CaseEntry] = JournalTable(1, tuple[Hash, U32], CaseEntry, self._append)
        self.tasks: JournalTable[TaskKey, TaskEntry] = JournalTable(2, tuple[Hash, U8], TaskEntry, self._append)
        self._tables = (self.races, self.cases, self.tasks)
        self._is_reader = is_reader
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if is_reader else _opened(path)
        self._replay()
        if not is_reader and self._size() > COMPACT_ABOVE_BYTES:
            self._compact()

    def close(self) -> None:
        """Release the file for another daemon."""
        os.close(self._file)

    def open_races(self) -> Iterator[tuple[RaceKey, RaceEntry]]:
        """Return the races that are not over."""
        return ((key, entry) for key, entry in self.races.items() if entry.end is None)

    def open_cases(self) -> Iterator[tuple[CaseKey, CaseEntry]]:
        """Return the cases that are not over."""
        return ((key, entry) for key, entry in self.cases.items() if not entry.is_over)

    def open_tasks(self) -> Iterator[tuple[TaskKey, TaskEntry]]:
        """Return the bids with possible work left."""
        return ((key, entry) for key, entry in self.tasks.items() if entry.end is None)

    def _append(self, body: bytes) -> None:
        """Write a record. It is on the disk when this returns. Raise JournalError on failure."""
        frame, size = framed(body), self._size()
        try:
            written = os.write(self._file, frame)
            os.fsync(self._file)
        except OSError as error:
            # A partial record would be taken for damage once a whole one follows it.
            os.ftruncate(self._file, size)
            raise JournalError(f"{self.path} cannot be written: {error}", code="journal_unwritable") from error
        if written != len(frame):
            os.ftruncate(self._file, size)
            raise JournalError(f"{self.path} cannot be written: the disk is full", code="disk_full")

    def _size(self) -> int:
        return os.fstat(self._file).st_size

    def _replay(self) -> None:
        data, whole = os.pread(self._file, self._size(), 0), 0
        for end, body in whole_records(data, 0, RECORD_BYTES_MAX):
            self._take(body, whole)
            whole = end
        if whole < len(data):
            self._cut(data, whole)

    def _take(self, body: bytes, begin: int) -> None:
        try:
            table = next((table for table in self._tables if table.number == body[0]), None)
            is_known = table is not None and table.take(body[1:])
        except (DecodeError, IndexError) as error:
            raise JournalError(f"{_damage(self.path, begin)} ({error})", code="journal_damaged") from error
        if not is_known:
            raise JournalError(
                f"{self.path} was written by a newer release; install that release or a later one",
                code="journal_too_new",
            )

    def _cut(self, data: bytes, begin: int) -> None:
        """Remove a record that a crash tore. A whole record after it means damage instead."""
        later = range(begin + 1, len(data) - HEADER_BYTES)
        if any(any(whole_records(data, place, RECORD_BYTES_MAX)) for place in later):
            raise JournalError(_damage(self.path, begin), code="journal_damaged")
        if not self._is_reader:
            os.ftruncate(self._file, begin)
            os.fsync(self._file)

    def _compact(self) -> None:
        """Rewrite the file without the outputs of ended races and tasks, and without the oldest ended entries."""
        races, tasks = _without_oldest(self.races), _without_oldest(self.tasks)
        self.races.keep({key: _shortened(entry) for key, entry in races.items()})
        self.cases.keep(dict(self.open_cases()))
        self.tasks.keep({key: _shortened(entry) for key, entry in tasks.items()})
        draft = self.path.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        file = _opened(draft)
        for frame in (framed(body) for table in self._tables for body in table.bodies()):
            if os.write(file, frame) != len(frame):
                raise JournalError(f"{draft} cannot be written: the disk is full", code="disk_full")
        os.fsync(file)
        # The new file is complete and synced before it replaces the old one.
        draft.rename(self.path)
        sync_folder(self.path.parent)
        os.close(self._file)
        self._file = file


def framed(body: bytes) -> bytes:
    """Return the record with this body."""
    return len(body).to_bytes(4, "little") + blake2_128(body) + body


def whole_records(data: bytes, begin: int, bytes_max: int) -> Iterator[tuple[int, bytes]]:
    """Yield the end and body of each record from `begin` to the first torn or damaged one.

    A body has `bytes_max` bytes at most.
    """
    while begin + HEADER_BYTES <= len(data):
        length = int.from_bytes(data[begin : begin + 4], "little")
        end = begin + HEADER_BYTES + length
        body = data[begin + HEADER_BYTES : end]
        is_whole = 0 < length <= bytes_max and end <= len(data)
        if not is_whole or blake2_128(body) != data[begin + 4 : begin + HEADER_BYTES]:
            return
        yield end, body
        begin = end


def _opened(path: Path) -> int:
    """Open a journal's file for this process alone, and for appending."""
    is_new = not path.exists()
    try:
        # Two daemons would append to one file without knowing each other's promises.
        file = lock_file(path)
    except BlockingIOError:
        raise JournalError(
            f"{path} is in use by another ogpu-provider with this --base-path", code="journal_in_use"
        ) from None
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
    if is_new:
        sync_folder(path.parent)
    return file


def _without_oldest(entries: Mapping[tuple[bytes, int], EndingEntry]) -> dict[tuple[bytes, int], EndingEntry]:
    """Return the open entries, and the newest `ENDED_KEPT` of the others."""
    ended = [key for key, entry in entries.items() if entry.end is not None]
    dropped = set(ended[: max(0, len(ended) - ENDED_KEPT)])
    return {key: entry for key, entry in entries.items() if key not in dropped}


def _shortened(entry: EndingEntry) -> EndingEntry:
    """Return the entry, without its result if it is over."""
    return entry if entry.end is None else replace(entry, result=None)


def _damage(path: Path, begin: int) -> str:
    return (
        f"{path} is damaged at byte {begin}. Restore it from a backup, or move it away. Without it, each race that "
        "is committed and not revealed may cost all its collateral"
    )
