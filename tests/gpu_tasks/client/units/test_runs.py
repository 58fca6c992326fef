"""Which run somebody names, and how it stands by its record; how long a run may take."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_tasks.client.units.posting_record import RecordError
from gpu_tasks.client.units.run_record import (
    INPUT,
    WINDOW,
    BatchRecord,
    FileEnds,
    RunPlan,
    WindowError,
    run_id,
    run_named,
    runs_of,
    state_of,
    window_seconds,
)

PLAN = RunPlan(
    "ab", "openai", "/v1/completions", "00", {INPUT: "/in", WINDOW: "24h"}, 5, "/out", "/err", 1, [(0, 2), (2, 1)]
)


def begun(folder: Path, name: str, plan: RunPlan = PLAN) -> BatchRecord:
    record = BatchRecord.open(folder, name.encode())
    record.begin(plan)
    return record


def stands(record: BatchRecord) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(state_of(BatchRecord.look(record.path)).json())
    return found


@pytest.mark.parametrize(("text", "seconds"), [("1s", 1), ("90m", 5_400), ("24h", 86_400), ("30d", 30 * 86_400)])
def test_a_window_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert window_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "24", "h", "0h", "31d", "1w", "-1h", "1 h", "1.5h", "٣h", "99999999d", "1h\n"])
def test_what_is_no_window(text: str) -> None:
    with pytest.raises(WindowError, match="such as 24h, up to 30d"):
        window_seconds(text)


def test_a_run_is_named_by_its_files_or_its_id(tmp_path: Path) -> None:
    with begun(tmp_path, "a", replace(PLAN, created_at=9)) as first, begun(tmp_path, "b", replace(PLAN, output="/o2")):
        second, found = runs_of(tmp_path)
        assert found.path == first.path, "the oldest first"
        assert run_named(tmp_path, run_id(second.path)).path == second.path
        assert run_named(tmp_path, run_id(second.path)[:12]).path == second.path
        assert run_named(tmp_path, "/out").path == first.path
        with pytest.raises(RecordError, match=r"2 runs have the file /in: name one of batch_\w+, batch_"):
            run_named(tmp_path, "/in")
        for name in ("/other", "batch_00", "batch_", "0x00", ""):
            with pytest.raises(RecordError, match="is no run of"):
                run_named(tmp_path, name)
        first.path.write_bytes(b"other\n")
        assert len(runs_of(tmp_path)) == 1
    with pytest.raises(RecordError, match="is no run of"):
        run_named(tmp_path / "nowhere", "/out")


def test_a_run_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    with begun(tmp_path, "a") as record:
        assert stands(record)["status"] == "in_progress"
        assert stands(record)["expires_at"] == 5 + 86_400
        record.note_posted(0, "00")
        record.note_posted(1, "01")
        record.note_written(0, 1, 1, FileEnds(1, 1))
        assert stands(record)["request_counts"] == {"total": 4, "completed": 1, "failed": 2}
        record.note_ended()
        record.note_ended()
        found = stands(record)
        assert (found["status"], found["finalizing_at"] > 5) == ("finalizing", True)
        record.note_written(1, 1, 0, FileEnds(2, 1))
        found = stands(record)
        assert (found["status"], found["id"]) == ("completed", run_id(record.path))
        assert found["in_progress_at"] <= found["finalizing_at"] <= found["completed_at"]
        record.ask_to_cancel()
        assert stands(record)["status"] == "completed", "too late"


@pytest.mark.parametrize(
    ("why", "first", "last"), [("cancelled", "cancelling", "cancelled"), ("expired", "in_progress", "expired")]
)
def test_a_run_that_is_stopped(tmp_path: Path, why: str, first: str, last: str) -> None:
    with begun(tmp_path, "a") as record:
        record.note_posted(0, "00")
        record.note_stopped(why)
        assert (record.to_post(), record.to_give_up(), stands(record)["status"]) == ([], [1], first)
        record.note_written(1, 0, 1, FileEnds(0, 1), is_given_up=True)
        record.note_written(0, 2, 0, FileEnds(1, 1))
        assert (record.to_give_up(), stands(record)["status"]) == ([], last)
        with pytest.raises(ValueError, match="written twice"):
            record.note_written(1, 0, 1, FileEnds(0, 1))
        with pytest.raises(ValueError, match="stopped twice"):
            record.note_stopped(why)


@pytest.mark.parametrize("why", ["cancelled", "expired"])
def test_a_run_that_is_stopped_when_all_is_worked_on_completes(tmp_path: Path, why: str) -> None:
    """Nothing of it was cancelled: one request failed, as one may of any run."""
    with begun(tmp_path, "a") as record:
        record.note_posted(0, "00")
        record.note_posted(1, "01")
        record.note_stopped(why)
        record.note_written(1, 0, 1, FileEnds(0, 1))
        record.note_written(0, 2, 0, FileEnds(1, 1))
        assert (record.given_up, stands(record)["status"]) == (0, "completed")
