"""The intent journal: an append-only file that survives kill -9 and power loss.

What its records are framed with, `frames` says.

Always: `append` returns after fsync, so a step that follows it is never one that the journal does not know; a record
that was being written when the machine stopped is cut off at the next start; damage anywhere else is an error, because
work that was committed and forgotten costs the bond; two daemons never share a journal.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from gpu_tasks.provider.journal.frames import HEADER_BYTES, body_of, end_of, framed
from gpu_tasks.provider.journal.records import (
    RECORD,
    Assigned,
    CaseEntry,
    Dismissed,
    Ended,
    JournalRecord,
    Judged,
    RaceEntry,
    Sending,
    WorkBound,
    WorkCounted,
    WorkDone,
    WorkSalted,
)
from gpu_tasks.provider.journal.task_records import TaskEntry, TaskKey, records_of, taken
from runtime.encoding.codec import DecodeError
from wallet.private_file import sync_folder

RECORD_BYTES_MAX = 2 * 1024 * 1024
COMPACT_ABOVE_BYTES = 16 * 1024 * 1024
ENDED_KEPT = 1_000
FILE_MODE = 0o600

RaceKey = tuple[bytes, int]
CaseKey = tuple[bytes, int]


class JournalError(Exception):
    """The journal cannot be used as it is; the text says what to do."""


class Journal:
    """Open with `Journal(path)`; what it says is in `races`, `cases` and `tasks`."""

    def __init__(self, path: Path, *, is_reader: bool = False) -> None:
        """Read the file, or make it. `JournalError` if it is damaged, or in use by another daemon.

        A reader looks at the file that a daemon may be writing, and changes nothing.
        """
        self.path = path
        self.races: dict[RaceKey, RaceEntry] = {}
        self.cases: dict[CaseKey, CaseEntry] = {}
        self.tasks: dict[TaskKey, TaskEntry] = {}
        self._is_reader = is_reader
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if is_reader else self._opened(path)
        self._replay()
        if not is_reader and self._size() > COMPACT_ABOVE_BYTES:
            self._compact()

    def append(self, record: JournalRecord) -> None:
        """Note a record; it is on the disk when this returns. `JournalError` if it cannot be."""
        frame, size = _frame(record), self._size()
        try:
            written = os.write(self._file, frame)
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, size)
            raise JournalError(f"{self.path} cannot be written: {error}") from error
        if written != len(frame):
            os.ftruncate(self._file, size)
            raise JournalError(f"{self.path} cannot be written: the disk is full")
        self._take(record)

    def close(self) -> None:
        """Let another daemon use the file."""
        os.close(self._file)

    def open_races(self) -> Iterator[tuple[RaceKey, RaceEntry]]:
        """The races that are not over."""
        return ((key, entry) for key, entry in list(self.races.items()) if entry.end is None)

    def open_cases(self) -> Iterator[tuple[CaseKey, CaseEntry]]:
        """The cases that are not over."""
        return ((key, entry) for key, entry in list(self.cases.items()) if not entry.is_over)

    def open_tasks(self) -> Iterator[tuple[TaskKey, TaskEntry]]:
        """The bids of which something may be left to do."""
        return ((key, entry) for key, entry in list(self.tasks.items()) if entry.end is None)

    def _opened(self, path: Path) -> int:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_new = not path.exists()
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise JournalError(f"{path} is in use: another ogpu-provider runs with this --base-path") from None
        if is_new:
            sync_folder(path.parent)
        return file

    def _size(self) -> int:
        return os.fstat(self._file).st_size

    def _replay(self) -> None:
        data = os.pread(self._file, self._size(), 0)
        begin = 0
        while begin < len(data):
            end = _end_of(data, begin)
            if end is None:
                self._cut(data, begin)
                return
            self._take(_record(self.path, data, begin, end))
            begin = end

    def _cut(self, data: bytes, begin: int) -> None:
        """Forget what a crash tore; a whole record behind it means that it is no crash but damage."""
        if any(_end_of(data, later) for later in range(begin + 1, len(data) - HEADER_BYTES)):
            raise JournalError(_damage(self.path, begin))
        if not self._is_reader:
            os.ftruncate(self._file, begin)
            os.fsync(self._file)

    def _take(self, record: JournalRecord) -> None:
        match record:
            case Assigned(unit, attempt, device):
                self.races.setdefault((unit, attempt), RaceEntry(device))
            case WorkDone() | WorkBound():
                pass  # of an older release: no chain takes its result any more
            case WorkCounted(unit, attempt, basis, result):
                self.races[unit, attempt].result, self.races[unit, attempt].basis = result, basis
            case WorkSalted(unit, attempt, basis, result, salt):
                self.races[unit, attempt].result, self.races[unit, attempt].basis = result, basis
                self.races[unit, attempt].input_salt = salt
            case Sending(unit, attempt, sent):
                self.races[unit, attempt].sent.add(sent)
            case Ended(unit, attempt, end, paid):
                self.races[unit, attempt].end, self.races[unit, attempt].paid = end, paid
            case Judged(unit, number, statement, salt):
                self.cases[unit, number] = CaseEntry(statement, salt)
            case Dismissed(unit, number):
                self.cases[unit, number].is_over = True
            case _:
                taken(self.tasks, record)

    def _compact(self) -> None:
        """Rewrite the file without the outputs of races that are over, and without the oldest of them."""
        ended = [key for key, entry in self.races.items() if entry.end is not None]
        for key in ended[: max(0, len(ended) - ENDED_KEPT)]:
            del self.races[key]
        self.cases = {key: entry for key, entry in self.cases.items() if not entry.is_over}
        over = [task for task, bid in self.tasks.items() if bid.end is not None]
        for task in over[: max(0, len(over) - ENDED_KEPT)]:
            del self.tasks[task]
        draft = self.path.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for record in self._records():
            frame = _frame(record)
            if os.write(file, frame) != len(frame):
                raise JournalError(f"{draft} cannot be written: the disk is full")
        os.fsync(file)
        draft.rename(self.path)
        sync_folder(self.path.parent)
        os.close(self._file)
        self._file = file

    def _records(self) -> Iterator[JournalRecord]:
        """Records that replay to what is known now."""
        for (unit, attempt), entry in self.races.items():
            yield Assigned(unit, attempt, entry.device)
            if entry.result is not None and entry.basis is not None and entry.end is None:
                salt = entry.input_salt
                yield (
                    WorkCounted(unit, attempt, entry.basis, entry.result)
                    if salt is None
                    else WorkSalted(unit, attempt, entry.basis, entry.result, salt)
                )
            for sent in sorted(entry.sent):
                yield Sending(unit, attempt, sent)
            if entry.end is not None:
                yield Ended(unit, attempt, entry.end, entry.paid)
        for (unit, number), case in self.cases.items():
            yield Judged(unit, number, case.statement, case.salt)
        for task, bid in self.tasks.items():
            yield from records_of(task, bid)


def _frame(record: JournalRecord) -> bytes:
    return framed(RECORD.encode(record))


def _end_of(data: bytes, begin: int) -> int | None:
    return end_of(data, begin, RECORD_BYTES_MAX)


def _record(path: Path, data: bytes, begin: int, end: int) -> JournalRecord:
    try:
        record: JournalRecord = RECORD.decode(body_of(data, begin, end))
    except DecodeError as error:
        raise JournalError(f"{_damage(path, begin)} ({error})") from error
    return record


def _damage(path: Path, begin: int) -> str:
    return (
        f"{path} is damaged at byte {begin}. Restore it from a backup; or move it away, which forgets results that "
        "were committed and not yet revealed: each of those races may cost all its collateral"
    )
