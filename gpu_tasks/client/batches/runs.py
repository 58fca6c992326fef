"""The runs of a folder: which one somebody names, and how it stands by its own record.

A run has an id, `batch_` and the first digits of its journal's name; people name it by a file of it too. Nobody is
asked and nothing is locked: what stands here is what the run has written down.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from gpu_tasks.client.batches.batch_object import BatchState, RequestCounts, status_of
from gpu_tasks.client.batches.lines import LineError
from gpu_tasks.client.batches.record import JOURNAL, BatchRecord, BatchRecordError, RunPlan
from gpu_tasks.client.batches.windows import window_seconds

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
    """Return the runs that were begun, the oldest first. BatchRecordError, unless told to skip damaged records."""
    found = []
    for path in folder.expanduser().glob(f"*{JOURNAL}"):
        try:
            record = BatchRecord.look(path)
        except BatchRecordError:
            if skips_damaged:
                continue
            raise
        if record.plan is not None:
            found.append(record)
    return sorted(found, key=lambda record: (_plan_of(record).created_at, record.path.name))


def run_named(folder: Path, text: str) -> BatchRecord:
    """The one run that is called so, or has this file; BatchRecordError where there is none, or several."""
    is_beginning = text.startswith(ID_PREFIX) and len(text) >= len(ID_PREFIX) + ID_CHARS_LEAST
    found = [
        record
        for record in runs_of(folder)
        if text == run_id(record.path) or (is_beginning and run_id(record.path).startswith(text))
    ]
    if not found and not text.startswith(ID_PREFIX):
        named = str(Path(text).absolute())
        found = [record for record in runs_of(folder) if named in _files_of(_plan_of(record))]
    if len(found) > 1:
        ids = ", ".join(run_id(record.path) for record in found)
        how = "begin with" if is_beginning else "have the file"
        raise BatchRecordError(f"{len(found)} runs {how} {text}: name one of {ids}, or its file of results")
    if not found:
        raise BatchRecordError(
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


def _files_of(plan: RunPlan) -> tuple[str, ...]:
    return plan.output, plan.errors, plan.settings.get(INPUT, "")


def _plan_of(record: BatchRecord) -> RunPlan:
    assert record.plan is not None, "only a run that was begun stands anywhere"
    return record.plan
