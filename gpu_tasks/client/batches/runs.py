"""The runs of a folder: which one somebody names, and how it stands by its own record.

A run has an id, `batch_` and the first digits of its journal's name; people name it by a file of it too. Nobody is
asked and nothing is locked: what stands here is what the run has written down.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from cli.output import plain
from gpu_tasks.client.batches.lines import LineError
from gpu_tasks.client.batches.record import JOURNAL, BatchRecord, RunPlan
from gpu_tasks.client.batches.sums import NOTHING, UnitSums
from gpu_tasks.client.posting_record import RecordError
from wallet.errors import WalletError

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
    """The one run that is called so, or has this file; RecordError where there is none, or several."""
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
            f"{text!r} is no run of {folder}: a run is named by its file of results, or by its id, as `ogpu batch` "
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
