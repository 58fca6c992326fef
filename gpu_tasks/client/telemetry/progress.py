"""How far tasks are, by what was heard of them last: a row for each slot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpu_tasks.client.telemetry.hearing import HeardNote, seconds_left
from gpu_tasks.telemetry.notes import EventNote, ProgressNote

PROGRESS_COLUMNS = (
    "task", "place", "event", "done", "total", "percent", "seconds_left", "gpu_percent", "memory_mib", "celsius",
    "watts", "heard_seconds_ago", "problem",
)  # fmt: skip
ROWS_MAX = 4_096
MIB = 1024 * 1024


@dataclass(slots=True)
class _Slot:
    heard_ms: int = 0
    event: str | None = None
    progress: ProgressNote | None = None
    problem: str | None = None


@dataclass(slots=True)
class ProgressTable:
    """The newest of each slot; a problem stays until something is heard again."""

    _slots: dict[tuple[bytes, int], _Slot] = field(default_factory=dict)

    def take(self, hearing: HeardNote) -> None:
        """Something was heard."""
        if hearing.place is None:
            for (task, _), each in self._slots.items():
                if task == hearing.task:
                    each.problem = hearing.problem
            return
        here = (hearing.task, hearing.place)
        if here not in self._slots and len(self._slots) >= ROWS_MAX:
            return
        slot = self._slots.setdefault(here, _Slot())
        slot.problem = hearing.problem
        if hearing.note is None:
            return
        slot.heard_ms = max(slot.heard_ms, hearing.at_ms)
        match hearing.note:
            case EventNote():
                slot.event = hearing.note.event
            case ProgressNote():
                slot.progress = hearing.note
            case _:
                pass

    def rows(self, now_ms: int) -> list[dict[str, Any]]:
        """A row for each slot; None is what is not known."""
        return [_row(task, place, slot, now_ms) for (task, place), slot in sorted(self._slots.items())]


def _row(task: bytes, place: int, slot: _Slot, now_ms: int) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(PROGRESS_COLUMNS)
    row |= {"task": task, "place": place, "event": slot.event, "problem": slot.problem}
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
