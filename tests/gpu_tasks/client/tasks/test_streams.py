"""Messages about tasks as text, rows and a table. Many silent slots are asked at once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from rich.console import Console

from cli.output import Output
from gpu_tasks.client.commands import logs
from gpu_tasks.client.tasks import streams as following_module
from gpu_tasks.client.tasks import streams as progress_module
from gpu_tasks.client.tasks.streams import ProgressTable, TaskHearings
from gpu_tasks.client.tasks.subscriber import (
    KINDS_MAX,
    MINUTE,
    SAID_EACH_MINUTE,
    BrokerBook,
    BrokerTrouble,
    Complaints,
    HeardNote,
    ToldSlot,
    seconds_left,
)
from gpu_tasks.data.program_left import LogLine
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.training.tasks import Slot, TaskState
from gpu_tasks.telemetry.broker import BrokerAddress
from gpu_tasks.telemetry.notes import (
    NO_METER,
    BeatNote,
    DeviceMeter,
    EventNote,
    LogNote,
    NoteField,
    PresenceNote,
    ProgressNote,
    TelemetryNote,
)
from priced_tasks import a_task

# What is heard, in words and in rows; how often a problem is said; how far tasks are.


TASK = b"t" * 32
METER = DeviceMeter(83, 5 << 30, 61, 250_900)
EVENT = EventNote("computed", (NoteField("milestone", "1"), NoteField("of", "6")))
LINES = LogNote((LogLine(1, is_error=False, text="loss 3"), LogLine(2, is_error=True, text="oh")), 3)


@pytest.mark.parametrize(
    ("note", "lines"),
    [
        (EVENT, ["computed milestone=1 of=6"]),
        (EventNote("started", ()), ["started"]),
        (LINES, ["... 3 lines left out: they came too fast", "out loss 3", "err oh"]),
        (ProgressNote(30, 120, 500_000, NO_METER), ["step 30 of 120, 25 %, 45 s left"]),
        (ProgressNote(30, 120, 0, NO_METER), ["step 30 of 120, 25 %"]),
        (ProgressNote(3, 0, 1, NO_METER), ["step 3 of 0"]),
        (ProgressNote(1, 2, 0, METER), ["step 1 of 2, 50 %, GPU 83 %, 5.0 GiB, 61 C, 250 W"]),
        (BeatNote(1, 2), []),
        (PresenceNote(is_here=True), []),
    ],
)
def test_notes_are_said(note: TelemetryNote, lines: list[str]) -> None:
    assert HeardNote(TASK, 0, 1, note).lines() == lines


def test_notes_are_rows_for_programs() -> None:
    def row(note: TelemetryNote) -> dict[str, object]:
        found = HeardNote(TASK, 2, 7, note).row()
        assert (found.pop("task"), found.pop("place"), found.pop("at_ms")) == ("0x" + TASK.hex(), 2, 7)
        return found

    assert row(EVENT) == {"kind": "event", "event": "computed", "fields": {"milestone": "1", "of": "6"}}
    assert row(LINES)["left_out"] == 3
    assert row(LINES)["lines"] == [
        {"at_ms": 1, "error": False, "text": "loss 3"},
        {"at_ms": 2, "error": True, "text": "oh"},
    ]
    meter = {"busy_percent": 83, "memory_bytes": 5 << 30, "temperature_celsius": 61, "power_milliwatts": 250_900}
    assert row(ProgressNote(1, 2, 3, METER)) == {"kind": "progress", "done": 1, "total": 2, "step_us": 3, **meter}
    assert row(BeatNote(1, 2)) == {"kind": "beat"}
    assert row(PresenceNote(is_here=True)) == {"kind": "other"}
    problem = HeardNote(TASK, None, 7, problem="it lies")
    assert problem.lines() == ["! it lies"]
    assert problem.row() == {
        "task": "0x" + TASK.hex(), "place": None, "at_ms": 7, "kind": "problem", "trouble": None, "says": "it lies",
    }  # fmt: skip
    assert HeardNote(TASK, None, 7, problem="it lies", trouble=BrokerTrouble.LIES).row()["trouble"] == "lies"


def test_what_is_left_is_unknown_where_a_provider_counts_oddly() -> None:
    assert seconds_left(ProgressNote(3, 2, 1_000_000, NO_METER)) is None
    assert seconds_left(ProgressNote(2, 2, 1_000_000, NO_METER)) == 0


def test_a_problem_is_said_a_few_times_a_minute() -> None:
    complaints = Complaints(_since=0.0)
    said = [complaints.said("forged", f"forged {number}", 1.0) for number in range(10)]
    assert said == [[f"forged {number}"] for number in range(SAID_EACH_MINUTE)] + [[]] * (10 - SAID_EACH_MINUTE)
    assert complaints.said("late", "late", 2.0) == ["late"]
    assert complaints.said("late", "late again", MINUTE) == [f"{10 - SAID_EACH_MINUTE} more: forged", "late again"]
    assert complaints.said("forged", "forged", MINUTE + 1) == ["forged"]


def test_kinds_of_problems_are_bounded() -> None:
    complaints = Complaints(_since=0.0)
    for number in range(KINDS_MAX):
        assert complaints.said(str(number), "x", 1.0)
    assert complaints.said("one more", "x", 1.0) == []
    assert complaints.said("0", "x", 1.0) == ["x"]


def test_the_newest_of_each_slot_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "ROWS_MAX", 2)
    table = ProgressTable()
    table.take(HeardNote(TASK, 1, 4_000, EVENT))
    table.take(HeardNote(TASK, 0, 1_000, ProgressNote(1, 4, 2_000_000, METER)))
    table.take(HeardNote(TASK, 0, 2_000, ProgressNote(2, 4, 2_000_000, METER)))
    table.take(HeardNote(TASK, 2, 2_000, EVENT))  # beyond the bound
    table.take(HeardNote(TASK, 0, 3_000, BeatNote(0, 2)))
    first, second = table.rows(9_500)
    assert (first["place"], first["done"], first["total"], first["percent"], first["seconds_left"]) == (0, 2, 4, 50, 4)
    assert (first["gpu_percent"], first["memory_mib"], first["celsius"], first["watts"]) == (83, 5 * 1024, 61, 250)
    assert (first["heard_seconds_ago"], first["event"]) == (6, None)
    assert (second["place"], second["event"], second["done"], second["heard_seconds_ago"]) == (1, "computed", None, 5)


def test_a_problem_stays_until_something_is_heard_again() -> None:
    table = ProgressTable()
    table.take(HeardNote(TASK, 0, 1, EVENT))
    table.take(HeardNote(b"o" * 32, 0, 1, EVENT))
    table.take(HeardNote(TASK, None, 2, problem="the broker is gone"))
    assert [row["problem"] for row in table.rows(3)] == [None, "the broker is gone"]
    table.take(HeardNote(TASK, 0, 3, problem="nothing is heard"))
    assert table.rows(3)[1]["problem"] == "nothing is heard"
    table.take(HeardNote(TASK, 0, 4, EVENT))
    assert table.rows(5)[1]["problem"] is None


def test_that_nobody_is_heard_is_over_with_the_first_note_and_a_lie_is_not() -> None:
    table = ProgressTable()
    table.take(HeardNote(TASK, 0, 1, EVENT))
    table.take(HeardNote(TASK, None, 2, problem="the broker is gone", trouble=BrokerTrouble.GONE))
    table.take(HeardNote(TASK, 0, 3, EVENT))
    assert table.rows(4)[0]["trouble"] is None
    table.take(HeardNote(TASK, None, 5, problem="forged: noise", trouble=BrokerTrouble.LIES))
    table.take(HeardNote(TASK, 0, 6, EVENT))
    assert (table.rows(7)[0]["trouble"], table.rows(7)[0]["problem"]) == ("lies", "forged: noise")
    assert table.rows(5 + progress_module.SAID_FOR_MS)[0]["trouble"] == "lies"
    assert table.rows(6 + progress_module.SAID_FOR_MS)[0]["trouble"] is None


def test_the_last_lines_of_a_program_are_kept() -> None:
    table = ProgressTable()
    for number in range(9):
        table.take(HeardNote(TASK, 0, 1, LogNote((LogLine(1, is_error=False, text=f"line {number}"),), 0)))
    table.take(HeardNote(TASK, 1, 1, EVENT))
    assert table.lines() == {0: [f"line {number}" for number in range(9 - progress_module.LINES_KEPT, 9)]}
    assert [row["last_line"] for row in table.rows(2)] == ["line 8", None]


def test_what_the_chain_says_stands_whatever_is_told() -> None:
    table = ProgressTable()
    running = a_task(state=TaskState.RUNNING, slots=(Slot(b"a" * 32, b"d" * 32, 1, 1, 1),))
    table.see({TASK: running})
    (row,) = table.rows(1)
    state, milestones = row["state"], row["milestones"]
    assert state.startswith("running")
    table.take(HeardNote(TASK, 0, 1, ProgressNote(4, 4, 1, METER)))
    table.take(HeardNote(TASK, 0, 1, EventNote("paid", ())))
    (row,) = table.rows(1)
    assert (row["state"], row["milestones"], row["percent"]) == (state, milestones, 100)
    assert table.is_heard()


def test_silence_is_said_where_nothing_else_is() -> None:
    table = ProgressTable()
    assert not table.is_heard()
    table.take(HeardNote(TASK, 0, 1, EVENT))
    table.take(HeardNote(TASK, 1, 1, problem="no broker", trouble=BrokerTrouble.NO_BROKER))
    table.see({b"o" * 32: a_task(state=TaskState.RUNNING, slots=(Slot(b"a" * 32, b"d" * 32, 1, 1, 1),))})
    table.note_silence(2, "nothing was heard")
    assert {row["task"] + bytes([row["place"]]): row["trouble"] for row in table.rows(3)} == {
        b"o" * 32 + b"\0": "silent", TASK + b"\0": None, TASK + b"\1": "no_broker",
    }  # fmt: skip


# Many slots whose providers are silent: all are asked at once whether they answer. And a table, drawn in time.


SLOTS = 8
NOWHERE = BrokerAddress("mqtt", "127.0.0.1", 1)


class SlowBook:
    """Providers that answer once all have been asked."""

    client = None

    def __init__(self) -> None:
        self.asked = 0
        self.all_asked = asyncio.Event()

    async def answers(self, _: bytes) -> bool:
        self.asked += 1
        if self.asked == SLOTS:
            self.all_asked.set()
        await self.all_asked.wait()
        return True


async def test_silent_providers_are_asked_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following_module, "SILENCE_SECONDS", 0.0)
    monkeypatch.setattr(TaskHearings, "_listen_at", lambda *_: None)
    book = cast("BrokerBook", SlowBook())
    hearings = TaskHearings(book, SealKey.from_seed(b"c" * 32), ())
    slots = [ToldSlot(bytes((number,)) * 32, 0, bytes((number,)) * 32, NOWHERE) for number in range(SLOTS)]
    await asyncio.wait_for(hearings._listen_to(slots), 10)
    said = [hearings._queue.get_nowait() for _ in slots]
    assert {each.trouble for each in said if each is not None} == {BrokerTrouble.GONE}


async def test_a_table_is_not_drawn_for_each_note(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    draw = logs._drawn_table

    def counted(table: ProgressTable) -> Any:
        drawn.append(1)
        return draw(table)

    monkeypatch.setattr(logs, "_drawn_table", counted)

    async def many() -> AsyncIterator[HeardNote]:
        for number in range(1_000):
            yield HeardNote(bytes(32), 0, number, ProgressNote(number, 1_000, 0, NO_METER))
            await asyncio.sleep(0)

    table = ProgressTable()
    output = Output(as_json=False)
    output.console = Console(quiet=True)
    await logs._show_table(output, table, many(), once=False)
    assert table.rows(0)[0]["done"] == 999
    assert len(drawn) < 100
