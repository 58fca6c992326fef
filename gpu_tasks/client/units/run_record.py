"""The runs of files, in the outbox. A run can be killed at any moment and resumed, and has an id and a file as names.

Each posted unit, each unit with written results, and a stop change the run's rows, on the disk before the call returns.
Another process may ask for a cancellation while one holds the run.

Invariants:

* The order is *post by `PostingRecord`, then `posted` here*, and *results to the disk, then `written` here*. After a
  crash between two steps the first one repeats without effect: the posting finds its extrinsics, and the results are
  cut off at the recorded ends.
* The state of a run is its rows. Reading it asks no node and takes no lock.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from gpu_tasks.client.units.batch_object import BatchState, RequestCounts, status_of
from gpu_tasks.client.units.costs import NOTHING, UnitSums
from gpu_tasks.client.units.lines import LineError
from wallet.errors import WalletError
from wallet.outbox import HeldRecord, OutboxFile, RecordError, record_name

STOPS = ("cancelled", "expired")


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
class BatchRecord(HeldRecord):
    """The record of a run."""

    kind: ClassVar[bytes] = b"run"
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
    _was_cancel_asked: bool = False

    @classmethod
    def open(cls, place: Path | OutboxFile, *identity: bytes) -> Self:
        """Return the record of a run, as it was left. Raise RecordBusyError if another process holds it."""
        return cls.open_named(place, record_name(*identity))

    @classmethod
    def open_named(cls, place: Path | OutboxFile, name: bytes) -> Self:
        """Return the record of the run with this name."""
        # Two processes at one run would both post its units, and the customer would pay for them twice.
        return cls.held(place, name, "another `ogpu unit post` is at the same run: wait for it, or stop it")

    @classmethod
    def look(cls, place: Path | OutboxFile, *identity: bytes) -> Self | None:
        """Return a run's record without a lock, for reading only; None before the run was begun."""
        with OutboxFile.looked(place) as outbox:
            # A process holds the lock of its run for hours, and a list must show that run too.
            record = None if outbox is None else cls.read(outbox, record_name(*identity))
        return None if record is None or record.plan is None else record

    @classmethod
    def read(cls, outbox: OutboxFile, name: bytes) -> Self:
        """Return the record with this name without a lock, for reading only."""
        record = cls(outbox, name, _is_guest=True)
        record._load()
        return record

    def begin(self, plan: RunPlan) -> None:
        """Write down the description of the run, before anything is posted."""
        assert self.plan is None, "a run is decided once"
        given = {each.name: getattr(plan, each.name) for each in fields(plan) if each.name != "units"}
        units = [(self.name, place, first, requests) for place, (first, requests) in enumerate(plan.units)]
        with self.outbox.transaction() as connection:
            connection.execute("INSERT INTO runs (name, plan) VALUES (?, ?)", (self.name, json.dumps(given)))
            connection.executemany("INSERT INTO run_units (run, place, first, requests) VALUES (?, ?, ?, ?)", units)
        self._load()

    def note_posted(self, unit: int, unit_id: str, sums: UnitSums = NOTHING) -> None:
        """Note that a unit is in a final block, with the money it locks."""
        # Unknown fees are null: no node served the unit's block any more.
        money = (sums.locked, sums.prepaid, sums.fees)
        with self._changing(unit):
            self._change_unit(
                unit, "unit IS NULL AND answered IS NULL",
                "unit = ?, locked = ?, prepaid = ?, fees = ?", bytes.fromhex(unit_id), *money,
            )  # fmt: skip
            self._change_run("posted_at = coalesce(posted_at, ?)", _now())

    def note_written(
        self, unit: int, answered: int, failed: int, ends: FileEnds, paid_and_returned: tuple[int, int] = (0, 0), *,
        is_given_up: bool = False, is_claimed: bool = False,
    ) -> None:  # fmt: skip
        """Note that a unit's results are on the disk, with the files' ends and the money paid and returned.

        `is_claimed` is True if the unit's payment waits for a check.
        """
        with self._changing(unit):
            self._change_unit(
                unit, "answered IS NULL AND (unit IS NOT NULL OR (SELECT stopped FROM runs WHERE name = run) NOT NULL)",
                "answered = ?, failed = ?, paid = ?, returned = ?, is_claimed = ?", answered, failed,
                *paid_and_returned, is_claimed,
            )  # fmt: skip
            self._change_ends(ends)
            given_up = failed if is_given_up else 0
            self._change_run("given_up = given_up + ?, written_at = ?", given_up, _now())

    def note_refuted(self, unit: int, ends: FileEnds, paid_and_returned: tuple[int, int]) -> None:
        """Note the refutation of a unit's answers, with the files' ends and all money paid and returned."""
        with self._changing(unit):
            self._change_unit(
                unit, "is_claimed",
                "is_claimed = 0, refuted = answered, answered = 0, failed = answered + failed, paid = ?, returned = ?",
                *paid_and_returned,
            )  # fmt: skip
            self._change_ends(ends)

    def note_passed(self, unit: int, paid_and_returned: tuple[int, int]) -> None:
        """Note that a claimed unit passed its check, with the money paid and returned."""
        with self._changing(unit):
            self._change_unit(unit, "is_claimed", "is_claimed = 0, paid = ?, returned = ?", *paid_and_returned)

    def note_fee(self, fee: int) -> None:
        """Note the fee for cancelling units, in grains."""
        with self._changing():
            self._change_run("fees_beside = fees_beside + ?", fee)

    def note_ended(self) -> None:
        """Note that no unit is open and none is left to post. Results may still be missing."""
        if "ended" not in self.times:
            with self._changing():
                self._change_run("ended_at = ?", _now())

    def note_stopped(self, why: str) -> None:
        """Note the stop of the run. Results of posted units are still written."""
        assert why in STOPS, "no other reason has error lines"
        with self._changing():
            self._require("stopped IS NULL")
            self._change_run("stopped = ?, stopped_at = ?, is_cancel_asked = 0", why, _now())

    def ask_to_cancel(self) -> None:
        """Ask the process that holds the run, or the next one, to cancel it."""
        with OutboxFile(self.outbox.path.parent) as outbox:
            outbox.execute("UPDATE runs SET is_cancel_asked = 1 WHERE name = ? AND stopped IS NULL", self.name)

    @property
    def total(self) -> UnitSums:
        """The sums of all units so far."""
        return sum(self.sums.values(), UnitSums(fees=self.fees_beside))

    @property
    def is_cancel_asked(self) -> bool:
        """True if a cancellation was requested and has not begun."""
        if self._lock >= 0:
            # Another process may have asked since the rows were read.
            self._load_run()
        return self._was_cancel_asked

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

    @contextmanager
    def _changing(self, unit: int | None = None) -> Iterator[None]:
        """Make the changes of the block one commit, and read the changed rows."""
        with self.outbox.transaction():
            yield
        self._load_run()
        if unit is not None:
            self._load_units(unit)

    def _change_unit(self, unit: int, condition: str, assignments: str, *values: Any) -> None:
        """Change the row of a unit. Raise ValueError if it does not meet the condition: it was noted before."""
        statement = f"UPDATE run_units SET {assignments} WHERE run = ? AND place = ? AND {condition}"  # noqa: S608
        if not self.outbox.execute(statement, *values, self.name, unit):
            raise ValueError(f"unit {unit} cannot change so: {condition}")

    def _change_run(self, assignments: str, *values: Any) -> None:
        self.outbox.execute(f"UPDATE runs SET {assignments} WHERE name = ?", *values, self.name)  # noqa: S608

    def _change_ends(self, ends: FileEnds) -> None:
        self._require("output_end <= ? AND errors_end <= ?", ends.output, ends.errors)
        self._change_run("output_end = ?, errors_end = ?", ends.output, ends.errors)

    def _require(self, condition: str, *values: Any) -> None:
        """Raise ValueError if the run does not meet a condition."""
        query = f"SELECT 1 FROM runs WHERE name = ? AND {condition}"  # noqa: S608  # our own words
        if not self.outbox.rows(query, self.name, *values):
            raise ValueError(f"the run cannot change so: {condition}")

    def _load(self) -> None:
        # One state of both tables, also while another process changes them.
        with self.outbox.snapshot():
            self._load_run()
            self._load_units()

    def _load_run(self) -> None:
        rows = self.outbox.rows(
            "SELECT plan, output_end, errors_end, fees_beside, given_up, stopped, is_cancel_asked, posted_at, "
            "ended_at, stopped_at, written_at FROM runs WHERE name = ?",
            self.name,
        )
        for text, output_end, errors_end, fees, given_up, stopped, is_cancel_asked, *times in rows:
            if self.plan is None:
                units = self.outbox.rows(
                    "SELECT first, requests FROM run_units WHERE run = ? ORDER BY place", self.name
                )
                self.plan = RunPlan(**json.loads(text), units=units)
            self.ends, self.fees_beside, self.given_up = FileEnds(output_end, errors_end), fees, given_up
            self.stopped, self._was_cancel_asked = stopped, bool(is_cancel_asked)
            moments = zip(("posted", "ended", "stopped", "written"), times, strict=True)
            self.times = {name: moment for name, moment in moments if moment is not None}

    def _load_units(self, unit: int | None = None) -> None:
        """Read the rows of all units with a post or results, or of one."""
        which, values = ("", ()) if unit is None else (" AND place = ?", (unit,))
        rows = self.outbox.rows(
            "SELECT place, unit, locked, prepaid, fees, paid, returned, answered, failed, is_claimed, refuted "  # noqa: S608
            f"FROM run_units WHERE run = ? AND (unit NOT NULL OR answered NOT NULL){which} ORDER BY place",
            self.name, *values,
        )  # fmt: skip
        for place, unit_id, locked, prepaid, fees, paid, returned, answered, failed, is_claimed, refuted in rows:
            if unit_id is not None:
                self.posted[place] = unit_id.hex()
                self.sums[place] = UnitSums(locked, prepaid, fees, paid, returned)
            if answered is not None:
                self.written[place] = (answered, failed)
            if refuted is not None:
                self.refuted[place] = refuted
            if is_claimed:
                self.claimed.add(place)
            else:
                self.claimed.discard(place)


def _now() -> int:
    return int(time.time())


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


def run_id(record: BatchRecord) -> str:
    """Return the id of a run."""
    return ID_PREFIX + record.name.hex()[:ID_CHARS]


def runs_of(place: Path | OutboxFile) -> list[BatchRecord]:
    """Return all runs, the oldest first."""
    with OutboxFile.looked(place) as outbox:
        names = [] if outbox is None else outbox.rows("SELECT name FROM runs")
        found = [BatchRecord.read(outbox, name) for (name,) in names if outbox is not None]
    return sorted(found, key=lambda record: (_plan_of(record).created_at, record.name))


def run_named(folder: Path, text: str) -> BatchRecord:
    """Return the run with this id or file, or the newest run for `last`; RecordError for none or several."""
    if text == "last" and (all_runs := runs_of(folder)):
        return all_runs[-1]
    is_beginning = text.startswith(ID_PREFIX) and len(text) >= len(ID_PREFIX) + ID_CHARS_LEAST
    found = [
        record
        for record in runs_of(folder)
        if text == run_id(record) or (is_beginning and run_id(record).startswith(text))
    ]
    if not found and not text.startswith(ID_PREFIX):
        named = str(Path(text).absolute())
        runs = [(record, _plan_of(record)) for record in runs_of(folder)]
        found = [record for record, plan in runs if named in (plan.output, plan.errors, plan.settings.get(INPUT, ""))]
    if len(found) > 1:
        ids = ", ".join(run_id(record) for record in found)
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
        batch_id=run_id(record),
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
