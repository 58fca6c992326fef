"""The runs of files, on the disk: each can be killed at any moment and taken up again, and is named by id or file.

A journal: a first entry says what the run is, one more is added for each unit that is posted or whose results are
written, and where the run is stopped. Each is on the disk before the call returns, and carries a hash of itself: what a
crash tore is dropped, and anything else that is wrong is refused. That a run is to be cancelled is asked by a file
beside it, since another process may be at the run.

Always: the order is *post by `PostingRecord`, then `posted` here*, and *results to the disk, then `written` here*; so a
crash between the two repeats what finds itself done: the posting finds its extrinsics, the results are cut off where
the last entry says. The state of a run is what it has written down: nobody is asked and nothing is locked for it.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from cli.output import plain
from gpu_tasks.client.units.costs import NOTHING, UnitSums
from gpu_tasks.client.units.lines import LineError
from gpu_tasks.client.units.posting_once import LockedRecord, RecordError, record_name
from runtime.cryptography.hashing import blake2_256
from wallet.errors import WalletError
from wallet.private_file import OWNER_ONLY, sync_folder

RECORD_BYTES_MAX = 64 * 1024 * 1024
JOURNAL, CANCEL = ".journal", ".cancel"
STOPS = ("cancelled", "expired")
_HASH_CHARS = 16


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run is: decided once, and the same whenever it is taken up again. Bytes are in hexadecimal."""

    file: str
    """The hash of the whole file."""
    form: str
    endpoint: str | None
    run_seed: str
    settings: Mapping[str, str]
    """What was asked of all lines, as texts: service, price, tokens, options; and where the file lies."""
    created_at: int
    """Unix seconds."""
    output: str
    """The file of results; beside it that of errors."""
    errors: str
    lines_refused: int
    units: Sequence[tuple[int, int]]
    """First place and count of each."""


@dataclass(frozen=True, slots=True)
class FileEnds:
    """How many bytes of results and errors are whole."""

    output: int = 0
    errors: int = 0


@dataclass(slots=True)
class BatchRecord(LockedRecord):
    """The journal."""

    plan: RunPlan | None = None
    posted: dict[int, str] = field(default_factory=dict)
    """By a unit's place in the plan, its id."""
    sums: dict[int, UnitSums] = field(default_factory=dict)
    """What each posted unit locked and cost, and what of it came back when its results were written."""
    fees_beside: int = 0
    """Grains, for taking units back."""
    written: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The units whose results are in the files: how many of their requests were answered, and how many failed."""
    refuted: dict[int, int] = field(default_factory=dict)
    """The units whose answers were written before their result was found wrong: how many these were."""
    ends: FileEnds = field(default_factory=FileEnds)
    given_up: int = 0
    """Requests that have no answer because the run was stopped."""
    stopped: str | None = None
    """Why nothing more is posted: `cancelled` or `expired`."""
    times: dict[str, int] = field(default_factory=dict)
    """Unix seconds at which it happened first, `posted`, `ended` and `stopped`, or last, `written`."""
    _journal: int = -1

    @classmethod
    def open(cls, folder: Path, *identity: bytes) -> Self:
        """The record of one run, as an earlier process left it; RecordBusyError if another process is at it."""
        return cls.open_path(journal_of(folder, *identity))

    @classmethod
    def open_path(cls, path: Path) -> Self:
        """The record of the run whose journal this is."""
        record, folder = cls(path), path.parent
        record.lock("another `ogpu unit post` is at the same run: wait for it, or stop it")
        try:
            record._journal = _open(record.path)
            sync_folder(folder)
            record._take_up()
        except OSError as error:
            record.close()
            raise RecordError(f"{folder} cannot be used, and nothing runs without a record: {error}") from None
        except (ValueError, TypeError, KeyError) as error:
            record.close()
            raise _damaged(path, error) from None
        return record

    @classmethod
    def look(cls, path: Path) -> Self:
        """What a journal says now, whoever is at it; nothing can be added. RecordError."""
        record = cls(path)
        try:
            with path.open("rb") as stream:
                record._read(stream.read(RECORD_BYTES_MAX + 1))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise _damaged(path, error) from None
        return record

    def close(self) -> None:
        """Give the file up; what is written stays."""
        if self._journal >= 0:
            os.close(self._journal)
        self._journal = -1
        LockedRecord.close(self)

    def begin(self, plan: RunPlan) -> None:
        """Write down what the run is, before anything is posted."""
        assert self.plan is None, "a run is decided once"
        self._add({"plan": asdict(plan)})

    def note_posted(self, unit: int, unit_id: str, sums: UnitSums = NOTHING) -> None:
        """A unit is in a final block, and locks so much."""
        money = {"locked": sums.locked, "prepaid": sums.prepaid, "fees": sums.fees}
        self._add({"posted": unit, "id": unit_id, **money, "at": _now()})

    def note_written(
        self, unit: int, answered: int, failed: int, ends: FileEnds, paid_and_returned: tuple[int, int] = (0, 0), *,
        is_given_up: bool = False,
    ) -> None:  # fmt: skip
        """The results of a unit are on the disk, and the files end so; of what it locked so much is paid and back."""
        ended, (paid, returned) = [ends.output, ends.errors], paid_and_returned
        more = {"paid": paid, "returned": returned, "given_up": is_given_up}
        self._add({"written": unit, "answered": answered, "failed": failed, "ends": ended, **more, "at": _now()})

    def note_refuted(self, unit: int, ends: FileEnds, paid_and_returned: tuple[int, int]) -> None:
        """What a unit was answered is found wrong, as the file of errors says now; so much is paid and back in all."""
        paid, returned = paid_and_returned
        money = {"paid": paid, "returned": returned}
        self._add({"refuted": unit, "ends": [ends.output, ends.errors], **money, "at": _now()})

    def note_fee(self, fee: int) -> None:
        """So many grains were paid for taking units back."""
        self._add({"fee": fee})

    def note_ended(self) -> None:
        """All units that are or will be posted have ended on the chain; their results are being written."""
        if "ended" not in self.times:
            self._add({"ended": True, "at": _now()})

    def note_stopped(self, why: str) -> None:
        """Nothing more is posted; results of what was are still written."""
        self._add({"stopped": why, "at": _now()})
        self.path.with_suffix(CANCEL).unlink(missing_ok=True)

    def ask_to_cancel(self) -> None:
        """Whoever is at the run, or takes it up next, is to cancel it."""
        try:
            os.close(_open(self.path.with_suffix(CANCEL)))
            sync_folder(self.path.parent)
        except OSError as error:
            raise RecordError(f"{self.path.parent} cannot be written: {error}; nothing was cancelled") from None

    @property
    def total(self) -> UnitSums:
        """What all units locked and cost so far."""
        return sum(self.sums.values(), UnitSums(fees=self.fees_beside))

    @property
    def is_cancel_asked(self) -> bool:
        """Whether somebody asked for it, and nobody has begun."""
        return self.path.with_suffix(CANCEL).exists()

    @property
    def is_whole(self) -> bool:
        """Whether every line has its answer, or the reason why it has none."""
        return self.plan is not None and len(self.written) == len(self.plan.units)

    def to_post(self) -> list[int]:
        """The units that are not known to be posted; `PostingRecord` knows of those that were on their way."""
        assert self.plan is not None, "there is no run yet"
        return [] if self.stopped else [unit for unit in range(len(self.plan.units)) if unit not in self.posted]

    def to_write(self) -> list[int]:
        """The posted units whose results are not written."""
        return [unit for unit in self.posted if unit not in self.written]

    def to_give_up(self) -> list[int]:
        """The units of a run that was stopped which were not posted, and whose lines do not say so yet."""
        assert self.plan is not None, "there is no run yet"
        units = range(len(self.plan.units)) if self.stopped else ()
        return [unit for unit in units if unit not in self.posted and unit not in self.written]

    def _take_up(self) -> None:
        """Read what is there, and cut off what a crash tore."""
        with os.fdopen(os.dup(self._journal), "rb") as stream:
            data = stream.read(RECORD_BYTES_MAX + 1)
        whole = self._read(data)
        if whole < len(data):
            os.ftruncate(self._journal, whole)
            os.fsync(self._journal)

    def _read(self, data: bytes) -> int:
        """Take in every whole entry; where they end."""
        if len(data) > RECORD_BYTES_MAX:
            raise ValueError(f"more than {RECORD_BYTES_MAX:,} bytes")
        whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:whole].splitlines(), 1):
            self._apply(_entry(line, number))
        return whole

    def _add(self, entry: dict[str, Any]) -> None:
        """The entry is on the disk when this returns, or nothing of it counts."""
        text = json.dumps(entry, separators=(",", ":")).encode()
        line = _hash(text) + b" " + text + b"\n"
        end = os.lseek(self._journal, 0, os.SEEK_END)
        if end + len(line) > RECORD_BYTES_MAX:
            raise RecordError(f"{self.path} would exceed {RECORD_BYTES_MAX:,} bytes: split the file")
        self._apply(entry)
        try:
            _write_all(self._journal, line)
            os.fsync(self._journal)
        except OSError as error:
            self.close()  # what is on the disk now, the next process reads
            raise RecordError(f"{self.path} cannot be written, so nothing more is posted: {error}") from None

    def _apply(self, entry: Mapping[str, Any]) -> None:
        """ValueError for an entry that cannot stand where it does."""
        if "plan" in entry:
            _check(self.plan is None, "two plans")
            given = dict(entry["plan"])
            given["units"] = [(int(first), int(count)) for first, count in given["units"]]
            self.plan = RunPlan(**given)
            return
        plan = self.plan
        _check(plan is not None, "no plan")
        at = int(entry.get("at", 0))
        if "posted" in entry:
            self._apply_posted(int(entry["posted"]), entry)
            self.times.setdefault("posted", at)
        elif "written" in entry:
            self._apply_written(int(entry["written"]), entry)
            self.times["written"] = at
        elif "refuted" in entry:
            self._apply_refuted(int(entry["refuted"]), entry)
        elif "fee" in entry:
            self.fees_beside += int(entry["fee"])
        elif "ended" in entry:
            self.times.setdefault("ended", at)
        else:
            _check(entry["stopped"] in STOPS, "an entry of another version")
            _check(self.stopped is None, "stopped twice")
            self.stopped = str(entry["stopped"])
            self.times["stopped"] = at

    def _apply_posted(self, unit: int, entry: Mapping[str, Any]) -> None:
        assert self.plan is not None, "looked at by `_apply`"
        _check(0 <= unit < len(self.plan.units), f"there is no unit {unit}")
        _check(unit not in self.posted, f"unit {unit} was posted twice")
        _check(unit not in self.written, f"unit {unit} was posted after it was given up")
        fees = entry.get("fees", 0)
        self.posted[unit] = str(entry["id"])
        self.sums[unit] = UnitSums(
            int(entry.get("locked", 0)), int(entry.get("prepaid", 0)), None if fees is None else int(fees)
        )

    def _apply_refuted(self, unit: int, entry: Mapping[str, Any]) -> None:
        answered, failed = self.written.get(unit, (0, 0))
        _check(answered > 0 and unit in self.posted, f"unit {unit} was found wrong, and not answered")
        self._apply_ends(entry)
        self.refuted[unit], self.written[unit] = answered, (0, answered + failed)
        self.sums[unit] = replace(self.sums[unit], paid=int(entry["paid"]), returned=int(entry["returned"]))

    def _apply_ends(self, entry: Mapping[str, Any]) -> None:
        output, errors = (int(end) for end in entry["ends"])
        _check(output >= self.ends.output and errors >= self.ends.errors, "the files became shorter")
        self.ends = FileEnds(output, errors)

    def _apply_written(self, unit: int, entry: Mapping[str, Any]) -> None:
        assert self.plan is not None, "looked at by `_apply`"
        is_given_up = self.stopped is not None and 0 <= unit < len(self.plan.units)
        _check(unit in self.posted or is_given_up, f"unit {unit} was written, and not posted")
        _check(unit not in self.written, f"unit {unit} was written twice")
        self._apply_ends(entry)
        self.written[unit] = (int(entry["answered"]), int(entry["failed"]))
        self.given_up += int(entry["failed"]) if entry.get("given_up", self.stopped is not None) else 0
        if unit in self.sums:
            ended = UnitSums(paid=int(entry.get("paid", 0)), returned=int(entry.get("returned", 0)))
            self.sums[unit] += ended


def journal_of(folder: Path, *identity: bytes) -> Path:
    """Where the journal of a run is."""
    return folder.expanduser() / f"{record_name(*identity)}{JOURNAL}"


def _now() -> int:
    return int(time.time())


def _damaged(path: Path, error: Exception) -> RecordError:
    return RecordError(f"{path} is damaged ({error}): see with `ogpu unit watch` what was posted, then remove it")


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, OWNER_ONLY)


def _entry(line: bytes, number: int) -> Mapping[str, Any]:
    mark, _, text = line.partition(b" ")
    _check(mark == _hash(text), f"entry {number} is not what was written")
    found = json.loads(text)
    _check(isinstance(found, dict), f"entry {number} is no object")
    return dict(found)


def _hash(text: bytes) -> bytes:
    return blake2_256(text).hex()[:_HASH_CHARS].encode()


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _check(is_right: bool, why: str) -> None:
    if not is_right:
        raise ValueError(why)


WINDOW_SECONDS_MAX = 30 * 86_400
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_WINDOW = re.compile(r"([1-9][0-9]{0,7})([smhd])")


class WindowError(WalletError):
    """What somebody wrote is no time that a run may take."""


def window_seconds(text: str) -> int:
    """The seconds of a completion window; WindowError."""
    found = _WINDOW.fullmatch(text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 1 <= seconds <= WINDOW_SECONDS_MAX:
        raise WindowError(f"a completion window is a number and s, m, h or d, such as 24h, up to 30d; not {text!r}")
    return seconds


ID_PREFIX = "batch_"
ID_CHARS = 24
ID_CHARS_LEAST = 4
"""Of a run's id, which may be cut short as those of units and tasks."""
WINDOW, INPUT = "completion_window", "input"
"""Names of a plan's settings: how long the run may take, if somebody said it; and where its file lies."""


def run_id(path: Path) -> str:
    """What a run is called."""
    return ID_PREFIX + path.stem[:ID_CHARS]


def runs_of(folder: Path, *, skips_damaged: bool = True) -> list[BatchRecord]:
    """Return the runs that were begun, the oldest first. RecordError, unless told to skip damaged records."""
    found = []
    for path in folder.expanduser().glob(f"*{JOURNAL}"):
        try:
            record = BatchRecord.look(path)
        except RecordError:
            if skips_damaged:
                continue
            raise
        if record.plan is not None:
            found.append(record)
    return sorted(found, key=lambda record: (_plan_of(record).created_at, record.path.name))


def run_named(folder: Path, text: str) -> BatchRecord:
    """Return the run with this id or file, or the newest run for `last`; RecordError for none or several."""
    if text == "last" and (all_runs := runs_of(folder)):
        return all_runs[-1]
    is_beginning = text.startswith(ID_PREFIX) and len(text) >= len(ID_PREFIX) + ID_CHARS_LEAST
    found = [
        record
        for record in runs_of(folder)
        if text == run_id(record.path) or (is_beginning and run_id(record.path).startswith(text))
    ]
    if not found and not text.startswith(ID_PREFIX):
        named = str(Path(text).absolute())
        runs = [(record, _plan_of(record)) for record in runs_of(folder)]
        found = [record for record, plan in runs if named in (plan.output, plan.errors, plan.settings.get(INPUT, ""))]
    if len(found) > 1:
        ids = ", ".join(run_id(record.path) for record in found)
        how = "begin with" if is_beginning else "have the file"
        raise RecordError(f"{len(found)} runs {how} {text}: name one of {ids}, or its file of results")
    if not found:
        raise RecordError(
            f"{text!r} is no run of {folder}: a run is named by its file of results, or by its id, as `ogpu unit runs` "
            "lists them; --postings names another folder"
        )
    return found[0]


def expires_at(plan: RunPlan) -> int | None:
    """Unix seconds at which the time of a run is over, if it has one."""
    window = plan.settings.get(WINDOW, "")
    return plan.created_at + window_seconds(window) if window else None


def counts_of(record: BatchRecord) -> RequestCounts:
    """How many requests a run has, those that were refused among them, and what came of them."""
    plan = _plan_of(record)
    answered, failed = (sum(each[place] for each in record.written.values()) for place in (0, 1))
    total = sum(count for _, count in plan.units) + plan.lines_refused
    return RequestCounts(total, answered, failed + plan.lines_refused)


def state_of(record: BatchRecord, refused: Sequence[LineError] = ()) -> BatchState:
    """A run as its record has it."""
    plan, counts = _plan_of(record), counts_of(record)
    stopped = record.stopped or ("cancelled" if record.is_cancel_asked and not record.is_whole else None)
    is_running = not record.is_whole and "ended" not in record.times
    status = status_of(counts, stopped, is_running, record.is_whole, record.given_up)
    return BatchState(
        batch_id=run_id(record.path),
        endpoint=plan.endpoint or "",
        status=status,
        created_at=plan.created_at,
        input_file=plan.file,
        output_file=plan.output,
        error_file=plan.errors,
        counts=counts,
        completion_window=plan.settings.get(WINDOW) or None,
        times=dict(_times(record, status.value)),
        refused=refused,
        sums=record.total,
    )


def _times(record: BatchRecord, status: str) -> Iterator[tuple[str, int]]:
    """By OpenAI's names."""
    over = expires_at(_plan_of(record))
    if over is not None:
        yield "expires", over
    for name, ours in (("in_progress", "posted"), ("finalizing", "ended")):
        if ours in record.times:
            yield name, record.times[ours]
    if record.stopped == "cancelled":
        yield "cancelling", record.times["stopped"]
    if record.is_whole:
        yield status, record.times["written"]


def _plan_of(record: BatchRecord) -> RunPlan:
    assert record.plan is not None, "only a run that was begun stands anywhere"
    return record.plan


WINDOW_UNASKED = "24h"
"""What OpenAI's object always has; of a run that takes as long as it takes `expires_at` is null."""
ERRORS_SHOWN_MAX = 100
"""Of the lines that were refused; all of them stand in the error file."""


class BatchStatus(StrEnum):
    """Where a run stands, in OpenAI's words."""

    VALIDATING = "validating"
    FAILED = "failed"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


_TIMES = ("in_progress", "expires", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """How many requests a run has, and what came of them."""

    total: int
    completed: int
    failed: int

    def __post_init__(self) -> None:
        assert min(self.completed, self.failed) >= 0, self
        assert self.completed + self.failed <= self.total, self


@dataclass(frozen=True, slots=True)
class BatchState:
    """A run at one moment. Times are Unix seconds, by what happened: `in_progress`, `expires`, `completed`, ..."""

    batch_id: str
    endpoint: str
    status: BatchStatus
    created_at: int
    input_file: str
    output_file: str
    error_file: str
    counts: RequestCounts
    completion_window: str | None
    """As it was asked; None where the run may take as long as it takes."""
    times: Mapping[str, int] = field(default_factory=dict)
    refused: Sequence[LineError] = ()
    sums: UnitSums = NOTHING

    def json(self) -> str:
        """The object, with every name that OpenAI's has, and `costs`; a file in which nothing stands is none there."""
        unknown = sorted(set(self.times) - set(_TIMES))
        assert not unknown, unknown
        return json.dumps(
            {
                "id": self.batch_id,
                "object": "batch",
                "endpoint": self.endpoint,
                "errors": _errors(self.refused),
                "input_file_id": self.input_file,
                "completion_window": self.completion_window or WINDOW_UNASKED,
                "status": self.status.value,
                "output_file_id": self.output_file if self.counts.completed else None,
                "error_file_id": self.error_file if self.counts.failed else None,
                "created_at": self.created_at,
                **{f"{name}_at": self.times.get(name) for name in _TIMES},
                "request_counts": {
                    "total": self.counts.total,
                    "completed": self.counts.completed,
                    "failed": self.counts.failed,
                },
                "metadata": None,
                "costs": plain(self.sums.facts()),
            },
            indent=2,
        )


def status_of(
    counts: RequestCounts, stopped: str | None, is_running: bool, are_files_whole: bool, given_up: int = 0
) -> BatchStatus:
    """Where a run stands. `stopped`: why nothing more is posted; `is_running`: whether units are still open.

    `given_up`: requests without an answer for that reason. Where there are none, it was stopped too late.
    """
    if stopped == "cancelled" and (is_running or not are_files_whole):
        return BatchStatus.CANCELLING
    if stopped == "cancelled" and given_up:
        return BatchStatus.CANCELLED
    if is_running:
        return BatchStatus.IN_PROGRESS
    if not are_files_whole:
        return BatchStatus.FINALIZING
    if stopped == "expired" and given_up:
        return BatchStatus.EXPIRED
    return BatchStatus.COMPLETED if counts.completed + counts.failed == counts.total else BatchStatus.IN_PROGRESS


def _errors(refused: Sequence[LineError]) -> dict[str, object] | None:
    if not refused:
        return None
    data = [
        {"code": error.code, "message": error.message, "param": error.param, "line": error.number}
        for error in refused[:ERRORS_SHOWN_MAX]
    ]
    return {"object": "list", "data": data}
