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

from gpu_tasks.provider.journal.records import FindingEntry, RaceEntry, VoteEntry
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
FindingKey = tuple[bytes, int]
"""A claim, and the number of the check."""
VoteKey = tuple[bytes, int]
"""A dispute, and the number of the round."""

EndingEntry = TypeVar("EndingEntry", RaceEntry, TaskEntry)


class JournalError(CodedError):
    """The journal is unusable. The text states the remedy."""


class Journal:
    """An open journal, with its entries in `races`, `tasks`, `findings` and `votes`."""

    def __init__(self, path: Path, *, is_reader: bool = False) -> None:
        """Read the file, or create it. Raise JournalError if it is damaged or in use by another daemon.

        A reader may read a file that a daemon is writing, and changes nothing.
        """
        self.path = path
        self.races: JournalTable[RaceKey, RaceEntry] = JournalTable(0, tuple[Hash, U32], RaceEntry, self._append_record)
        self.tasks: JournalTable[TaskKey, TaskEntry] = JournalTable(2, tuple[Hash, U8], TaskEntry, self._append_record)
        self.findings: JournalTable[FindingKey, FindingEntry] = JournalTable(
            3, tuple[Hash, U8], FindingEntry, self._append_record
        )
        self.votes: JournalTable[VoteKey, VoteEntry] = JournalTable(4, tuple[Hash, U8], VoteEntry, self._append_record)
        self._tables = (self.races, self.tasks, self.findings, self.votes)
        self._is_reader = is_reader
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if is_reader else _opened(path)
        self._replay_records()
        if not is_reader and self._file_size() > COMPACT_ABOVE_BYTES:
            self._compact_file()

    def close(self) -> None:
        """Release the file for another daemon."""
        os.close(self._descriptor)

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

    def _append_record(self, body: bytes) -> None:
        """Write a record. It is on the disk when this returns. Raise JournalError on failure."""
        frame, old_size = framed(body), self._file_size()
        try:
            written_bytes = os.write(self._descriptor, frame)
            os.fsync(self._descriptor)
        except OSError as error:
            # A partial record would be taken for damage once a whole one follows it.
            os.ftruncate(self._descriptor, old_size)
            raise JournalError(f"{self.path} cannot be written: {error}", code="journal_unwritable") from error
        # A write to an almost full disk takes a part of the bytes, without an error.
        if written_bytes != len(frame):
            os.ftruncate(self._descriptor, old_size)
            raise JournalError(f"{self.path} cannot be written: the disk is full", code="disk_full")

    def _file_size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def _replay_records(self) -> None:
        journal_bytes, whole_bytes = os.pread(self._descriptor, self._file_size(), 0), 0
        for end, body in whole_records(journal_bytes, 0, RECORD_BYTES_MAX):
            self._take_record(body, whole_bytes)
            whole_bytes = end
        if whole_bytes < len(journal_bytes):
            self._cut_torn_record(journal_bytes, whole_bytes)

    def _take_record(self, body: bytes, begin: int) -> None:
        try:
            record_table = next((table for table in self._tables if table.number == body[0]), None)
            # A record that this release does not know may hold a promise, so it is never skipped.
            is_known = record_table is not None and record_table.take(body[1:])
        except (DecodeError, IndexError) as error:
            raise JournalError(f"{_damage(self.path, begin)} ({error})", code="journal_damaged") from error
        if not is_known:
            raise JournalError(
                f"{self.path} was written by a newer release; install that release or a later one",
                code="journal_too_new",
            )

    def _cut_torn_record(self, journal_bytes: bytes, begin: int) -> None:
        """Remove a record that a crash tore. A whole record after it means damage instead."""
        later_starts = range(begin + 1, len(journal_bytes) - HEADER_BYTES)
        if any(any(whole_records(journal_bytes, record_start, RECORD_BYTES_MAX)) for record_start in later_starts):
            raise JournalError(_damage(self.path, begin), code="journal_damaged")
        if not self._is_reader:
            os.ftruncate(self._descriptor, begin)
            os.fsync(self._descriptor)

    def _compact_file(self) -> None:
        """Rewrite the file without the outputs of ended races and tasks, and without the oldest ended entries."""
        kept_races, kept_tasks = _without_oldest(self.races), _without_oldest(self.tasks)
        self.races.keep({key: _shortened(entry) for key, entry in kept_races.items()})
        self.tasks.keep({key: _shortened(entry) for key, entry in kept_tasks.items()})
        self.findings.keep(dict(self.open_findings()))
        self.votes.keep(dict(self.open_votes()))
        draft_path = self.path.with_suffix(".draft")
        draft_path.unlink(missing_ok=True)
        descriptor = _opened(draft_path)
        for frame in (framed(body) for table in self._tables for body in table.bodies()):
            if os.write(descriptor, frame) != len(frame):
                raise JournalError(f"{draft_path} cannot be written: the disk is full", code="disk_full")
        os.fsync(descriptor)
        # The new file is complete and synced before it replaces the old one.
        draft_path.rename(self.path)
        sync_folder(self.path.parent)
        os.close(self._descriptor)
        self._descriptor = descriptor


def framed(body: bytes) -> bytes:
    """Return the record with this body."""
    return len(body).to_bytes(4, "little") + blake2_128(body) + body


def whole_records(record_bytes: bytes, begin: int, bytes_max: int) -> Iterator[tuple[int, bytes]]:
    """Yield the end and body of each record from `begin` to the first torn or damaged one.

    A body has `bytes_max` bytes at most.
    """
    while begin + HEADER_BYTES <= len(record_bytes):
        body_length = int.from_bytes(record_bytes[begin : begin + 4], "little")
        end = begin + HEADER_BYTES + body_length
        body = record_bytes[begin + HEADER_BYTES : end]
        # The bytes of a torn record can read as any length.
        is_whole = 0 < body_length <= bytes_max and end <= len(record_bytes)
        if not is_whole or blake2_128(body) != record_bytes[begin + 4 : begin + HEADER_BYTES]:
            return
        yield end, body
        begin = end


def _opened(path: Path) -> int:
    """Open a journal's file for this process alone, and for appending."""
    is_new = not path.exists()
    try:
        # Two daemons would append to one file without knowing each other's promises.
        descriptor = lock_file(path)
    except BlockingIOError:
        raise JournalError(
            f"{path} is in use by another ogpu-provider with this --base-path", code="journal_in_use"
        ) from None
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
    if is_new:
        sync_folder(path.parent)
    return descriptor


def _without_oldest(entries: Mapping[tuple[bytes, int], EndingEntry]) -> dict[tuple[bytes, int], EndingEntry]:
    """Return the open entries, and the newest `ENDED_KEPT` of the others."""
    ended_keys = [key for key, entry in entries.items() if entry.end is not None]
    dropped_keys = set(ended_keys[: max(0, len(ended_keys) - ENDED_KEPT)])
    return {key: entry for key, entry in entries.items() if key not in dropped_keys}


def _shortened(entry: EndingEntry) -> EndingEntry:
    """Return the entry, without its result if it is over."""
    return entry if entry.end is None else replace(entry, result=None)


def _damage(path: Path, begin: int) -> str:
    return (
        f"{path} is damaged at byte {begin}. Restore it from a backup, or move it away. Without it, "
        "each race that is committed and not revealed may cost all its collateral"
    )
