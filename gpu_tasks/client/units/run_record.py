"""The runs of files on the disk. Each run can be killed at any moment and resumed, and has an id and a file as names.

Each run has a journal. Its first entry describes the run. Each posted unit, each unit with written results, and a stop
add an entry. An entry is on the disk before the call returns, and carries its own hash: a torn last entry is dropped,
and any other damage is refused. A request to cancel is a separate file, because another process may hold the run.

Invariants:

* The order is *post by `PostingRecord`, then `posted` here*, and *results to the disk, then `written` here*. After a
  crash between two steps the first one repeats without effect: the posting finds its extrinsics, and the results are
  cut off at the last entry.
* The state of a run is its journal. Reading it asks no node and takes no lock.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from gpu_tasks.client.units.batch_object import BatchState, RequestCounts, status_of
from gpu_tasks.client.units.costs import NOTHING, UnitSums
from gpu_tasks.client.units.lines import LineError
from gpu_tasks.client.units.posting_once import LockedRecord, RecordError, record_name
from runtime.cryptography.hashing import blake2_256
from wallet.errors import WalletError
from wallet.private_file import OWNER_ONLY, sync_folder

# A journal is read into memory as a whole, so a file that is no journal must not fill it.
RECORD_BYTES_MAX = 64 * 1024 * 1024
JOURNAL, CANCEL = ".journal", ".cancel"
STOPS = ("cancelled", "expired")
_HASH_CHARS = 16


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The description of a run: decided once, and equal at each resumption. Bytes are in hexadecimal."""

    file: str
    """The hash of the whole file."""
    form: str
    endpoint: str | None
    run_seed: str
    settings: Mapping[str, str]
    """The settings of all lines, as texts: service, price, tokens, options, and the file's path."""
    created_at: int
    """Unix seconds."""
    output: str
    """The path of the results. The errors have a file beside it."""
    errors: str
    lines_refused: int
    units: Sequence[tuple[int, int]]
    """The first place and the count of each unit."""


@dataclass(frozen=True, slots=True)
class FileEnds:
    """The valid bytes of the results and errors files."""

    output: int = 0
    errors: int = 0


@dataclass(slots=True)
class BatchRecord(LockedRecord):
    """The journal of a run."""

    plan: RunPlan | None = None
    posted: dict[int, str] = field(default_factory=dict)
    """The ids of posted units, by place in the plan."""
    sums: dict[int, UnitSums] = field(default_factory=dict)
    """The money that each posted unit locked and cost, with the returned part once its results are written."""
    fees_beside: int = 0
    """Grains spent on cancelling units."""
    written: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The units with written results, each with the numbers of answered and failed requests."""
    claimed: set[int] = field(default_factory=set)
    """The units whose answers were written while their payment waited for a check, until the check has an end."""
    refuted: dict[int, int] = field(default_factory=dict)
    """The units that did not pass after their answers were written, each with the number of these answers."""
    ends: FileEnds = field(default_factory=FileEnds)
    given_up: int = 0
    """The requests without an answer because the run was stopped."""
    stopped: str | None = None
    """The reason for the stop: `cancelled` or `expired`."""
    times: dict[str, int] = field(default_factory=dict)
    """Unix seconds of the first `posted`, `ended` and `stopped`, and of the last `written`."""
    _journal: int = -1

    @classmethod
    def open(cls, folder: Path, *identity: bytes) -> Self:
        """Return the record of a run, with its earlier entries. Raise RecordBusyError if another process holds it."""
        return cls.open_path(journal_of(folder, *identity))

    @classmethod
    def open_path(cls, path: Path) -> Self:
        """Return the record of the run with this journal."""
        record, folder = cls(path), path.parent
        # Two processes at one run would both post its units, and the customer would pay for them twice.
        record.lock("another `ogpu unit post` is at the same run: wait for it, or stop it")
        try:
            record._journal = _open(record.path)
            # By fsync(2), a synced file can still lose its name in a power cut, and the paid units with it.
            sync_folder(folder)
            record._take_up()
        except OSError as error:
            record.close()
            raise RecordError(
                f"{folder} cannot be used: {error}. Nothing runs without a record", code="record_unwritable"
            ) from None
        except (ValueError, TypeError, KeyError) as error:
            record.close()
            raise _damaged(path, error) from None
        return record

    @classmethod
    def look(cls, path: Path) -> Self:
        """Return a run's record without a lock, for reading only. Raise RecordError if it is damaged."""
        record = cls(path)
        try:
            # A process holds the lock of its run for hours, and a list must show that run too.
            with path.open("rb") as stream:
                record._read(stream.read(RECORD_BYTES_MAX + 1))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise _damaged(path, error) from None
        return record

    def close(self) -> None:
        """Release the file. Written entries stay."""
        if self._journal >= 0:
            os.close(self._journal)
        self._journal = -1
        LockedRecord.close(self)

    def begin(self, plan: RunPlan) -> None:
        """Write down the description of the run, before anything is posted."""
        assert self.plan is None, "a run is decided once"
        self._add({"plan": asdict(plan)})

    def note_posted(self, unit: int, unit_id: str, sums: UnitSums = NOTHING) -> None:
        """Note that a unit is in a final block, with the money it locks."""
        money = {"locked": sums.locked, "prepaid": sums.prepaid, "fees": sums.fees}
        self._add({"posted": unit, "id": unit_id, **money, "at": _now()})

    def note_written(
        self, unit: int, answered: int, failed: int, ends: FileEnds, paid_and_returned: tuple[int, int] = (0, 0), *,
        is_given_up: bool = False, is_claimed: bool = False,
    ) -> None:  # fmt: skip
        """Note that a unit's results are on the disk, with the files' ends and the money paid and returned.

        `is_claimed` is True if the unit's payment waits for a check.
        """
        ended, (paid, returned) = [ends.output, ends.errors], paid_and_returned
        more = {"paid": paid, "returned": returned, "given_up": is_given_up, "claimed": is_claimed}
        self._add({"written": unit, "answered": answered, "failed": failed, "ends": ended, **more, "at": _now()})

    def note_refuted(self, unit: int, ends: FileEnds, paid_and_returned: tuple[int, int]) -> None:
        """Note the refutation of a unit's answers, with the files' ends and all money paid and returned."""
        paid, returned = paid_and_returned
        money = {"paid": paid, "returned": returned}
        self._add({"refuted": unit, "ends": [ends.output, ends.errors], **money, "at": _now()})

    def note_passed(self, unit: int, paid_and_returned: tuple[int, int]) -> None:
        """Note that a claimed unit passed its check, with the money paid and returned."""
        paid, returned = paid_and_returned
        self._add({"passed": unit, "paid": paid, "returned": returned})

    def note_fee(self, fee: int) -> None:
        """Note the fee for cancelling units, in grains."""
        self._add({"fee": fee})

    def note_ended(self) -> None:
        """Note that no unit is open and none is left to post. Results may still be missing."""
        if "ended" not in self.times:
            self._add({"ended": True, "at": _now()})

    def note_stopped(self, why: str) -> None:
        """Note the stop of the run. Results of posted units are still written."""
        self._add({"stopped": why, "at": _now()})
        # The request goes after the journal has the stop: a kill in between leaves a request without further effect.
        self.path.with_suffix(CANCEL).unlink(missing_ok=True)

    def ask_to_cancel(self) -> None:
        """Ask the process that holds the run, or the next one, to cancel it."""
        try:
            # Only the holder of the lock appends to the journal, so the request is an empty file beside it.
            os.close(_open(self.path.with_suffix(CANCEL)))
            sync_folder(self.path.parent)
        except OSError as error:
            raise RecordError(
                f"{self.path.parent} cannot be written: {error}. Nothing was cancelled", code="record_unwritable"
            ) from None

    @property
    def total(self) -> UnitSums:
        """The sums of all units so far."""
        return sum(self.sums.values(), UnitSums(fees=self.fees_beside))

    @property
    def is_cancel_asked(self) -> bool:
        """True if a cancellation was requested and has not begun."""
        return self.path.with_suffix(CANCEL).exists()

    @property
    def is_whole(self) -> bool:
        """True if every line has its answer or its error."""
        return self.plan is not None and len(self.written) == len(self.plan.units)

    def to_post(self) -> list[int]:
        """Return the units without a note of their post. `PostingRecord` has those that a crash interrupted."""
        assert self.plan is not None, "there is no run yet"
        return [] if self.stopped else [unit for unit in range(len(self.plan.units)) if unit not in self.posted]

    def to_write(self) -> list[int]:
        """Return the posted units without written results."""
        return [unit for unit in self.posted if unit not in self.written]

    def to_give_up(self) -> list[int]:
        """Return the units of a stopped run that were never posted and have no error lines yet."""
        assert self.plan is not None, "there is no run yet"
        units = range(len(self.plan.units)) if self.stopped else ()
        return [unit for unit in units if unit not in self.posted and unit not in self.written]

    def _take_up(self) -> None:
        """Read the journal, and cut off an entry that a crash tore."""
        with os.fdopen(os.dup(self._journal), "rb") as stream:
            data = stream.read(RECORD_BYTES_MAX + 1)
        whole = self._read(data)
        if whole < len(data):
            # An entry appended to a torn one would be on the same line, and its hash would refuse the whole journal.
            os.ftruncate(self._journal, whole)
            os.fsync(self._journal)

    def _read(self, data: bytes) -> int:
        """Apply every whole entry, and return the end of the last one."""
        if len(data) > RECORD_BYTES_MAX:
            raise ValueError(f"more than {RECORD_BYTES_MAX:,} bytes")
        # The line feed is written last, so an entry without one was torn by a kill.
        whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:whole].splitlines(), 1):
            self._apply(_entry(line, number))
        return whole

    def _add(self, entry: dict[str, Any]) -> None:
        """Write an entry to the disk before returning. An entry that cannot be written has no effect."""
        text = json.dumps(entry, separators=(",", ":")).encode()
        line = _entry_hash(text) + b" " + text + b"\n"
        end = os.lseek(self._journal, 0, os.SEEK_END)
        if end + len(line) > RECORD_BYTES_MAX:
            reason = f"{self.path} would exceed {RECORD_BYTES_MAX:,} bytes. Split the file"
            raise RecordError(reason, code="record_too_large")
        # Applied before it is written: an entry that this check refuses would make the journal unreadable for good.
        self._apply(entry)
        try:
            _write_all(self._journal, line)
            os.fsync(self._journal)
        except OSError as error:
            # Part of the entry may be on the disk. The next process cuts it off before it appends.
            self.close()
            raise RecordError(
                f"{self.path} cannot be written: {error}. Nothing more is posted", code="record_unwritable"
            ) from None

    def _apply(self, entry: Mapping[str, Any]) -> None:
        """Apply an entry. Raise ValueError if it is invalid at its place."""
        if "plan" in entry:
            _check(self.plan is None, "two plans")
            given = dict(entry["plan"])
            given["units"] = [(int(first), int(count)) for first, count in given["units"]]
            self.plan = RunPlan(**given)
            return
        plan = self.plan
        _check(plan is not None, "no plan")
        moment = int(entry.get("at", 0))
        if "posted" in entry:
            self._apply_posted(int(entry["posted"]), entry)
            self.times.setdefault("posted", moment)
        elif "written" in entry:
            self._apply_written(int(entry["written"]), entry)
            self.times["written"] = moment
        elif "refuted" in entry:
            self._apply_refuted(int(entry["refuted"]), entry)
        elif "passed" in entry:
            self._apply_passed(int(entry["passed"]), entry)
        elif "fee" in entry:
            self.fees_beside += int(entry["fee"])
        elif "ended" in entry:
            self.times.setdefault("ended", moment)
        else:
            _check(entry["stopped"] in STOPS, "an entry of another version")
            _check(self.stopped is None, "stopped twice")
            self.stopped = str(entry["stopped"])
            self.times["stopped"] = moment

    def _apply_posted(self, unit: int, entry: Mapping[str, Any]) -> None:
        assert self.plan is not None, "looked at by `_apply`"
        _check(0 <= unit < len(self.plan.units), f"there is no unit {unit}")
        _check(unit not in self.posted, f"unit {unit} was posted twice")
        _check(unit not in self.written, f"unit {unit} was posted after it was given up")
        # Null is an unknown fee: no node served the fee's block any more.
        fees = entry.get("fees", 0)
        self.posted[unit] = str(entry["id"])
        self.sums[unit] = UnitSums(
            int(entry.get("locked", 0)), int(entry.get("prepaid", 0)), None if fees is None else int(fees)
        )

    def _apply_passed(self, unit: int, entry: Mapping[str, Any]) -> None:
        _check(unit in self.claimed, f"unit {unit} passed, and was not claimed")
        self.claimed.remove(unit)
        self.sums[unit] = replace(self.sums[unit], paid=int(entry["paid"]), returned=int(entry["returned"]))

    def _apply_refuted(self, unit: int, entry: Mapping[str, Any]) -> None:
        answered, failed = self.written.get(unit, (0, 0))
        _check(unit in self.claimed, f"unit {unit} was found wrong, and not claimed")
        self._apply_ends(entry)
        self.claimed.remove(unit)
        self.refuted[unit], self.written[unit] = answered, (0, answered + failed)
        self.sums[unit] = replace(self.sums[unit], paid=int(entry["paid"]), returned=int(entry["returned"]))

    def _apply_ends(self, entry: Mapping[str, Any]) -> None:
        output, errors = (int(end) for end in entry["ends"])
        _check(output >= self.ends.output and errors >= self.ends.errors, "the files became shorter")
        self.ends = FileEnds(output, errors)

    def _apply_written(self, unit: int, entry: Mapping[str, Any]) -> None:
        assert self.plan is not None, "looked at by `_apply`"
        is_given_up = self.stopped is not None and 0 <= unit < len(self.plan.units)
        _check(unit in self.posted or is_given_up, f"it has an answer of unit {unit}, which it never posted")
        _check(unit not in self.written, f"it has two answers of unit {unit}")
        self._apply_ends(entry)
        self.written[unit] = (int(entry["answered"]), int(entry["failed"]))
        self.given_up += int(entry["failed"]) if entry.get("given_up", self.stopped is not None) else 0
        if entry.get("claimed"):
            self.claimed.add(unit)
        if unit in self.sums:
            ended = UnitSums(paid=int(entry.get("paid", 0)), returned=int(entry.get("returned", 0)))
            self.sums[unit] += ended


def journal_of(folder: Path, *identity: bytes) -> Path:
    """Return the path of a run's journal."""
    return folder.expanduser() / f"{record_name(*identity)}{JOURNAL}"


def _now() -> int:
    return int(time.time())


def _damaged(path: Path, error: Exception) -> RecordError:
    return RecordError(
        f"{path} is damaged ({error}). See the posted units with `ogpu unit list`, then remove the file",
        code="record_damaged",
    )


def _open(path: Path) -> int:
    # Without O_NOFOLLOW, a link in a shared folder would lead the entries into any file of the user.
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, OWNER_ONLY)


def _entry(line: bytes, number: int) -> Mapping[str, Any]:
    mark, _, text = line.partition(b" ")
    _check(mark == _entry_hash(text), f"entry {number} is not what was written")
    found = json.loads(text)
    _check(isinstance(found, dict), f"entry {number} is no object")
    return dict(found)


def _entry_hash(text: bytes) -> bytes:
    return blake2_256(text).hex()[:_HASH_CHARS].encode()


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        # write(2) may take fewer bytes than it was given, as on a nearly full disk.
        data = data[os.write(descriptor, data) :]


def _check(is_right: bool, why: str) -> None:
    if not is_right:
        raise ValueError(why)


WINDOW_SECONDS_MAX = 30 * 86_400
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_WINDOW = re.compile(r"([1-9][0-9]{0,7})([smhd])")


class WindowError(WalletError):
    """The text is no valid completion window."""


def window_seconds(text: str) -> int:
    """Return the seconds of a completion window. Raise WindowError for an invalid one."""
    found = _WINDOW.fullmatch(text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 1 <= seconds <= WINDOW_SECONDS_MAX:
        raise WindowError(
            f"{text!r} is not a completion window. Write a number and s, m, h or d, such as 24h, up to 30d",
            code="invalid_window",
        )
    return seconds


ID_PREFIX = "batch_"
ID_CHARS = 24
ID_CHARS_LEAST = 4
"""The fewest characters of a run's id. It may be shortened, like the ids of units and tasks."""
WINDOW, INPUT = "completion_window", "input"
"""Names of a plan's settings: the time that the run may take, if limited, and the file's path."""


def run_id(path: Path) -> str:
    """Return the id of a run."""
    return ID_PREFIX + path.stem[:ID_CHARS]


def runs_of(folder: Path, *, skips_damaged: bool = True) -> list[BatchRecord]:
    """Return all runs, the oldest first. Raise RecordError for a damaged record, unless told to skip them."""
    found = []
    for path in folder.expanduser().glob(f"*{JOURNAL}"):
        try:
            record = BatchRecord.look(path)
        # One damaged record must not hide the customer's other runs.
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
        raise RecordError(
            f"{len(found)} runs {how} {text}. Name one of {ids}, or its file of results", code="several_runs"
        )
    if not found:
        raise RecordError(
            f"{text!r} is no run of {folder}: a run is named by its file of results, or by its id, as `ogpu unit runs` "
            "lists them; --postings names another folder",
            code="run_unknown",
        )
    return found[0]


def expires_at(plan: RunPlan) -> int | None:
    """Return the Unix seconds at which a run's window ends, if it has one."""
    window = plan.settings.get(WINDOW, "")
    return plan.created_at + window_seconds(window) if window else None


def counts_of(record: BatchRecord) -> RequestCounts:
    """Return the number of a run's requests, with the refused ones, and their outcomes."""
    plan = _plan_of(record)
    answered, failed = (sum(each[place] for each in record.written.values()) for place in (0, 1))
    total = sum(count for _, count in plan.units) + plan.lines_refused
    return RequestCounts(total, answered, failed + plan.lines_refused)


def state_of(record: BatchRecord, refused: Sequence[LineError] = ()) -> BatchState:
    """Return the state of a run by its record."""
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
    """Yield the times by OpenAI's names."""
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
