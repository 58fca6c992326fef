"""The record of a run: taken up again after any crash, and named by people."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from error_codes import raises_code
from gpu_tasks.client.units.costs import UnitSums
from gpu_tasks.client.units.result_lines import ResultFiles, ResultFilesError, require_files
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
from wallet.outbox import FILE, OutboxFile, RecordError

# A run is taken up again after any crash: nothing lost, nothing twice. Real files; a real kill.


PLAN = RunPlan("ab", "openai", "/v1/completions", "00", {"service": "0"}, 5, "out", "err", 1, [(0, 2), (2, 1), (3, 4)])


def opened(folder: Path) -> BatchRecord:
    return BatchRecord.open(folder, b"genesis", b"file")


def story(folder: Path) -> None:
    """Everything that a record can hold."""
    with opened(folder) as record:
        record.begin(PLAN)
        record.note_posted(1, "11")
        record.note_posted(0, "00")
        record.note_written(1, 1, 0, FileEnds(10, 0), is_claimed=True)
        record.note_refuted(1, FileEnds(10, 5), (2, 3))
        record.note_stopped("expired")


def test_a_run_is_as_it_was_left(tmp_path: Path) -> None:
    story(tmp_path)
    with opened(tmp_path) as record:
        assert record.plan == PLAN
        assert list(record.plan.units) == [(0, 2), (2, 1), (3, 4)]
        assert record.posted == {1: "11", 0: "00"}
        assert record.written == {1: (0, 1)}
        assert record.refuted == {1: 1}
        assert (record.sums[1].paid, record.sums[1].returned) == (2, 3)
        assert (record.ends, record.stopped) == (FileEnds(10, 5), "expired")
        assert record.to_write() == [0]
        assert record.to_post() == []
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_the_end_of_a_claim_is_noted_with_the_money_that_it_moved(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        record.begin(PLAN)
        record.note_posted(1, "11", UnitSums(locked=9, prepaid=1))
        record.note_written(1, 1, 0, FileEnds(10, 0), is_claimed=True)
        assert (record.claimed, record.sums[1].still_locked) == ({1}, 9)
        record.note_passed(1, (5, 3))
    with opened(tmp_path) as record:
        assert (record.claimed, record.written, record.refuted) == (set(), {1: (1, 0)}, {})
        assert record.sums[1] == UnitSums(9, 1, 0, 5, 3)


def test_what_is_left_to_post(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        record.begin(PLAN)
        assert record.to_post() == [0, 1, 2]
        record.note_posted(1, "11")
    with opened(tmp_path) as record:
        assert record.to_post() == [0, 2]
        assert record.to_write() == [1]


def test_other_runs_have_other_records(tmp_path: Path) -> None:
    with opened(tmp_path) as record, BatchRecord.open(tmp_path, b"genesisf", b"ile") as other:
        record.begin(PLAN)
        assert other.plan is None


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(RecordError, match="another"):
        opened(tmp_path)
    with opened(tmp_path) as record:
        assert record.plan is None


def test_a_record_that_was_changed_is_refused(tmp_path: Path) -> None:
    story(tmp_path)
    whole = (tmp_path / FILE).read_bytes()
    for what in (b"/v1/completions", b"expired", b"\x11"):
        place = whole.rindex(what)
        (tmp_path / FILE).write_bytes(whole[:place] + b"#" + whole[place + 1 :])
        for _ in range(2):  # and the lock is free
            with raises_code(RecordError, "record_damaged"):
                opened(tmp_path)


PAID = (0, 0)
STEPS: dict[str, Callable[[BatchRecord], None]] = {
    "posted": lambda record: record.note_posted(0, "00"),
    "written": lambda record: record.note_written(0, 1, 0, FileEnds(1, 1)),
    "claimed": lambda record: record.note_written(0, 1, 0, FileEnds(1, 1), is_claimed=True),
    "refuted": lambda record: record.note_refuted(0, FileEnds(1, 2), PAID),
    "passed": lambda record: record.note_passed(0, PAID),
    "stopped": lambda record: record.note_stopped("expired"),
    "a unit that is not there": lambda record: record.note_posted(3, "00"),
    "shorter": lambda record: record.note_written(1, 1, 0, FileEnds(1, 0)),
    "shorter when refuted": lambda record: record.note_refuted(0, FileEnds(1, 0), PAID),
    "the other posted": lambda record: record.note_posted(1, "01"),
}


@pytest.mark.parametrize(
    "steps",
    [
        ["a unit that is not there"],
        ["posted", "posted"],
        ["written"],
        ["posted", "written", "written"],
        ["posted", "the other posted", "written", "shorter"],
        ["posted", "refuted"],
        ["posted", "claimed", "refuted", "refuted"],
        ["posted", "claimed", "shorter when refuted"],
        ["posted", "written", "passed"],
        ["posted", "claimed", "passed", "refuted"],
        ["stopped", "stopped"],
        ["stopped", "written", "posted"],
    ],
)
def test_steps_that_cannot_follow_change_nothing(tmp_path: Path, steps: list[str]) -> None:
    with opened(tmp_path) as record:
        record.begin(PLAN)
        for step in steps[:-1]:
            STEPS[step](record)
        before = state_of(record)
        with pytest.raises(ValueError, match="cannot change"):
            STEPS[steps[-1]](record)
        assert state_of(record) == before
    with opened(tmp_path) as record:
        assert state_of(record) == before


def test_a_disk_that_is_full_ends_the_process_not_the_run(tmp_path: Path) -> None:
    story(tmp_path)
    with opened(tmp_path) as record:
        [(pages,)] = record.outbox.rows("PRAGMA page_count")
        record.outbox.rows(f"PRAGMA max_page_count = {pages}")
        with raises_code(RecordError, "disk_full"):
            record.note_posted(2, "22" * 10_000)
        assert record.posted == {1: "11", 0: "00"}
    with opened(tmp_path) as record:
        assert record.posted == {1: "11", 0: "00"}
        record.note_posted(2, "22")


def test_units_that_are_noted_together_are_one_commit(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        record.begin(PLAN)
        with record.outbox.transaction():
            for unit in range(3):
                record.note_posted(unit, "00")
            with OutboxFile.looked(tmp_path) as other:
                assert other is not None
                assert BatchRecord.read(other, record.name).posted == {}
        looked = BatchRecord.look(tmp_path, b"genesis", b"file")
        assert looked is not None
        assert looked.posted == dict.fromkeys(range(3), "00")


RUNNER = """
import os, signal, sys
from pathlib import Path
from gpu_tasks.client.units.run_record import BatchRecord, RunPlan
from gpu_tasks.client.units.result_lines import ResultFiles
def step():
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
def posting(unit):  # as `PostingRecord` does: what was sent is sent, and is found again
    sent = folder / f"sent-{unit}"
    with (folder / "all-sent").open("a") as stream:
        if not sent.exists():
            sent.touch()
            stream.write(f"{unit}\\n")
    return f"{unit:02x}"
def run():
    out, err = folder / "out", folder / "err"
    with BatchRecord.open(folder / "records", b"x") as record:
        step()
        if record.plan is None:
            files = ResultFiles.create(out, err)
            step()
            record.begin(RunPlan("ab", "lines", None, "00", {}, 5, "out", "err", 0, [(unit, 1) for unit in range(3)]))
        else:
            files = ResultFiles.take_up(out, err, record.ends)
        step()
        for unit in record.to_post():
            name = posting(unit)
            step()
            record.note_posted(unit, name)
            step()
        for unit in record.to_write():
            os.write(files._descriptors[0], b"torn")
            step()
            os.ftruncate(files._descriptors[0], record.ends.output)
            ends = files.add([f"result {unit}\\n".encode()], [f"error {unit}\\n".encode()])
            step()
            record.note_written(unit, 1, 0, ends)
            step()
for steps in range(30):
    folder = Path(sys.argv[1], str(steps))
    folder.mkdir()
    for left in (steps, 1_000):
        child = os.fork()
        if not child:
            try:
                run()
                os._exit(0)
            finally:
                os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_killed_at_every_step_nothing_is_lost_or_twice(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUNNER, str(tmp_path)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert ended == [str(-signal.SIGKILL), "0"] * 18 + ["0", "0"] * 12
    for steps in range(30):
        folder = tmp_path / str(steps)
        assert (folder / "out").read_text() == "result 0\nresult 1\nresult 2\n"
        assert (folder / "err").read_text() == "error 0\nerror 1\nerror 2\n"
        assert (folder / "all-sent").read_text() == "0\n1\n2\n"


def test_files_of_others_are_not_written_to(tmp_path: Path) -> None:
    output, errors = tmp_path / "out", tmp_path / "err"
    output.write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe")
    for path, beforehand, when_opened in (
        (output, "file_exists", "file_exists"),
        (tmp_path / "link", "not_a_file", "file_unwritable"),
        (tmp_path / "pipe", "not_a_file", "not_a_file"),
        (tmp_path / "no" / "folder", "folder_missing", "file_unwritable"),
        (output / "below", "file_unwritable", "file_unwritable"),
    ):
        for pair in ((path, errors), (errors, path)):
            with raises_code(ResultFilesError, beforehand):
                require_files(*pair, None)
            with raises_code(ResultFilesError, when_opened):
                ResultFiles.create(*pair)
    assert output.read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()
    require_files(tmp_path / "new", errors, None)
    assert not (tmp_path / "new").exists(), "nothing is created beforehand"


@pytest.mark.parametrize("missing", [os.W_OK, os.R_OK, os.X_OK])
def test_files_and_folders_without_the_needed_rights_are_refused_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int
) -> None:
    output, errors = tmp_path / "out", tmp_path / "err"
    monkeypatch.setattr(os, "access", lambda _path, wanted: not wanted & missing)
    if missing != os.R_OK:
        with raises_code(ResultFilesError, "file_unwritable"):
            require_files(output, errors, None)
    output.touch()
    errors.touch()
    if missing != os.X_OK:
        with raises_code(ResultFilesError, "file_unwritable"):
            require_files(output, errors, FileEnds(0, 0))


def test_what_the_record_does_not_know_is_cut_off_and_what_is_gone_is_said(tmp_path: Path) -> None:
    output, errors = tmp_path / "out", tmp_path / "err"
    with ResultFiles.create(output, errors) as files:
        assert files.add([b"a\n", b"b\n"], []) == FileEnds(4, 0)
        assert files.add([b"half"], [b"e\n"]) == FileEnds(8, 2)
    with ResultFiles.take_up(output, errors, FileEnds(4, 2)) as files:
        assert files.add([b"c\n"], []) == FileEnds(6, 2)
    assert output.read_bytes() == b"a\nb\nc\n"
    assert output.stat().st_mode & 0o777 == 0o600
    for refused in (require_files, ResultFiles.take_up):
        with raises_code(ResultFilesError, "file_shorter"):
            refused(output, errors, FileEnds(7, 2))
    assert output.read_bytes() == b"a\nb\nc\n"


# Which run somebody names, and how it stands by its record; how long a run may take.


PLAN_OF_RUNS = RunPlan(
    "ab", "openai", "/v1/completions", "00", {INPUT: "/in", WINDOW: "24h"}, 5, "/out", "/err", 1, [(0, 2), (2, 1)]
)


def begun(folder: Path, name: str, plan: RunPlan = PLAN_OF_RUNS) -> BatchRecord:
    record = BatchRecord.open(folder, name.encode())
    record.begin(plan)
    return record


def stands(record: BatchRecord) -> dict[str, Any]:
    with OutboxFile(record.outbox.path.parent) as outbox:
        found: dict[str, Any] = json.loads(state_of(BatchRecord.read(outbox, record.name)).json())
    return found


@pytest.mark.parametrize(("text", "seconds"), [("1s", 1), ("90m", 5_400), ("24h", 86_400), ("30d", 30 * 86_400)])
def test_a_window_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert window_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "24", "h", "0h", "31d", "1w", "-1h", "1 h", "1.5h", "٣h", "99999999d", "1h\n"])
def test_what_is_no_window(text: str) -> None:
    with pytest.raises(WindowError, match="such as 24h, up to 30d"):
        window_seconds(text)


def test_a_run_is_named_by_its_files_or_its_id(tmp_path: Path) -> None:
    with (
        begun(tmp_path, "a", replace(PLAN_OF_RUNS, created_at=9)) as first,
        begun(tmp_path, "b", replace(PLAN_OF_RUNS, output="/o2")),
    ):
        second, found = runs_of(tmp_path)
        assert found.name == first.name, "the oldest first"
        assert run_named(tmp_path, run_id(second)).name == second.name
        assert run_named(tmp_path, run_id(second)[:12]).name == second.name
        assert run_named(tmp_path, "/out").name == first.name
        with raises_code(RecordError, "several_runs"):
            run_named(tmp_path, "/in")
        for name in ("/other", "batch_00", "batch_", "0x00", ""):
            with pytest.raises(RecordError, match="is no run of"):
                run_named(tmp_path, name)
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
        assert (found["status"], found["id"]) == ("completed", run_id(record))
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
        with pytest.raises(ValueError, match="cannot change"):
            record.note_written(1, 0, 1, FileEnds(0, 1))
        with pytest.raises(ValueError, match="cannot change"):
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
