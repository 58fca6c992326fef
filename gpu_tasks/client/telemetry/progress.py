"""How far tasks are: by the chain, and by what was heard of them last; a row for each slot.

Always: what the chain says of a task and what its provider tells stand in columns of their own; no note changes the
first, and what is wrong with a broker is said beside what came over it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_tasks.client.telemetry.messages import LASTING, BrokerTrouble, HeardNote, seconds_left
from gpu_tasks.client.training.records import task_row
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.telemetry.notes import EventNote, LogNote, ProgressNote

CHAIN_COLUMNS = ("task", "place", "state", "milestones")
"""What the chain says."""
TOLD_COLUMNS = (
    "event", "done", "total", "percent", "seconds_left", "gpu_percent", "memory_mib", "celsius", "watts",
    "heard_seconds_ago", "last_line",
)  # fmt: skip
"""What the provider tells, which nothing proves."""
PROGRESS_COLUMNS = (*CHAIN_COLUMNS, *TOLD_COLUMNS, "trouble", "problem")
SHOWN_COLUMNS = (
    *CHAIN_COLUMNS, "event", "percent", "seconds_left", "gpu_percent", "memory_mib", "celsius", "watts",
    "heard_seconds_ago", "last_line", "problem",
)  # fmt: skip
"""For people."""
WHOSE_WORD = "state and milestones are the chain's; the rest is what providers tell, and nothing proves it"
ROWS_MAX = 4_096
LINES_KEPT = 5
SAID_FOR_MS = 60_000
"""So long a broker that lied, was slow or lost something is said to, after the last time."""
MIB = 1024 * 1024


@dataclass(slots=True)
class _Slot:
    state: str | None = None
    milestones: str | None = None
    heard_ms: int = 0
    event: str | None = None
    progress: ProgressNote | None = None
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    problem: str | None = None
    trouble: BrokerTrouble | None = None
    said_ms: int = 0

    def problem_at(self, now_ms: int) -> tuple[BrokerTrouble | None, str | None]:
        """What is wrong now with what is heard."""
        is_over = self.trouble not in LASTING and now_ms - self.said_ms > SAID_FOR_MS
        return (None, None) if is_over else (self.trouble, self.problem)


@dataclass(slots=True)
class ProgressTable:
    """The newest of each slot; that nothing is heard is said until something is, and other problems for a minute."""

    _slots: dict[tuple[bytes, int], _Slot] = field(default_factory=dict)

    def see(self, tasks: Mapping[bytes, Task]) -> None:
        """How tasks stand on the chain: those of their slots that somebody has stand in the table from here on."""
        for task_id, task in tasks.items():
            row = task_row(task_id, task)
            for place in range(len(task.slots)):
                slot = self._slot((task_id, place))
                if slot is not None:
                    slot.state, slot.milestones = row["state"], row["milestones"]

    def take(self, hearing: HeardNote) -> None:
        """Something was heard."""
        if hearing.place is None:
            for (task, _), each in self._slots.items():
                if task == hearing.task:
                    _complain(each, hearing)
            return
        slot = self._slot((hearing.task, hearing.place))
        if slot is None:
            return
        if hearing.note is None:
            _complain(slot, hearing)
            return
        if slot.trouble is None or slot.trouble in LASTING:
            slot.trouble, slot.problem = None, None
        slot.heard_ms = max(slot.heard_ms, hearing.at_ms)
        match hearing.note:
            case EventNote():
                slot.event = hearing.note.event
            case ProgressNote():
                slot.progress = hearing.note
            case LogNote():
                slot.lines.extend(line.text for line in hearing.note.lines)
            case _:
                pass

    def note_silence(self, now_ms: int, text: str) -> None:
        """Say of each slot that was not heard, and of which nothing else is to be said, that it is silent."""
        for slot in self._slots.values():
            if not slot.heard_ms and slot.problem is None:
                slot.problem, slot.trouble, slot.said_ms = text, BrokerTrouble.SILENT, now_ms

    def is_heard(self) -> bool:
        """Whether each slot has told how far it is."""
        return bool(self._slots) and all(each.progress is not None for each in self._slots.values())

    def rows(self, now_ms: int) -> list[dict[str, Any]]:
        """A row for each slot; None is what is not known."""
        return [_row(task, place, slot, now_ms) for (task, place), slot in sorted(self._slots.items())]

    def lines(self) -> dict[int, list[str]]:
        """By place the last lines that programs of the one task wrote, the oldest first."""
        return {place: list(slot.lines) for (_, place), slot in sorted(self._slots.items()) if slot.lines}

    def _slot(self, here: tuple[bytes, int]) -> _Slot | None:
        if here not in self._slots and len(self._slots) >= ROWS_MAX:
            return None
        return self._slots.setdefault(here, _Slot())


def _complain(slot: _Slot, hearing: HeardNote) -> None:
    slot.problem, slot.trouble, slot.said_ms = hearing.problem, hearing.trouble, hearing.at_ms


def _row(task: bytes, place: int, slot: _Slot, now_ms: int) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(PROGRESS_COLUMNS)
    trouble, problem = slot.problem_at(now_ms)
    row |= {"task": task, "place": place, "state": slot.state, "milestones": slot.milestones, "event": slot.event}
    row |= {"trouble": None if trouble is None else trouble.name.lower(), "problem": problem}
    row["last_line"] = slot.lines[-1] if slot.lines else None
    if slot.heard_ms:
        row["heard_seconds_ago"] = max(0, now_ms - slot.heard_ms) // 1_000
    note = slot.progress
    if note is None:
        return row
    row |= {"done": note.done, "total": note.total, "seconds_left": seconds_left(note)}
    row["percent"] = 100 * note.done // note.total if note.total else None
    meter = note.meter
    if meter.memory_bytes:
        row |= {"gpu_percent": meter.busy_percent, "memory_mib": meter.memory_bytes // MIB}
        row |= {"celsius": meter.temperature_celsius, "watts": meter.power_milliwatts // 1_000}
    return row
