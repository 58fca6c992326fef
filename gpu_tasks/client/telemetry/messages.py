"""One thing that was heard of a task, or is to be said of whoever carries it; and how often the same is said."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from gpu_tasks.data.program_left import LogLine
from gpu_tasks.telemetry.notes import BeatNote, DeviceMeter, EventNote, LogNote, ProgressNote, TelemetryNote

SAID_EACH_MINUTE = 3
"""Problems of one kind that are said; those beyond are counted."""
MINUTE = 60.0
KINDS_MAX = 64


class BrokerTrouble(Enum):
    """What is wrong with who carries notes, in a sentence; the name is for programs."""

    LIES = "the broker lies: it hands over what this provider never told, or told before"
    WITHHOLDS = "the broker loses notes, or holds them back"
    SLOW = "the broker is slow, or a clock is wrong"
    FLOODS = "the broker floods: not all is looked at"
    GONE = "the broker is gone"
    LEFT = "the broker says that the provider is gone"
    SILENT = "nothing is heard of the provider"
    NO_BROKER = "the provider names no broker"
    THROWN_AWAY = "the provider threw notes away, which its broker did not take"
    FOREIGN = "what is told is another customer's"


LASTING = (BrokerTrouble.GONE, BrokerTrouble.LEFT, BrokerTrouble.SILENT, BrokerTrouble.NO_BROKER)
"""Over once something is heard; of the others one note says nothing."""


@dataclass(frozen=True, slots=True)
class HeardNote:
    """A note of a slot, or a sentence of our own about a broker. Times in milliseconds since 1970, by who tells."""

    task: bytes
    place: int | None
    at_ms: int
    note: TelemetryNote | None = None
    problem: str | None = None
    trouble: BrokerTrouble | None = None
    """What kind of problem it is."""

    def lines(self) -> list[str]:
        """For people; none for a beat."""
        if self.problem is not None:
            return [f"! {self.problem}"]
        match self.note:
            case EventNote():
                details = " ".join(f"{each.name}={each.text}" for each in self.note.fields)
                return [f"{self.note.event} {details}".rstrip()]
            case LogNote():
                left_out = f"... {self.note.left_out:,} lines that came too fast to be told"
                return [*[left_out] * bool(self.note.left_out), *map(shown_line, self.note.lines)]
            case ProgressNote():
                return [_progress(self.note)]
            case _:
                return []

    def row(self) -> dict[str, Any]:
        """For programs."""
        row: dict[str, Any] = {"task": "0x" + self.task.hex(), "place": self.place, "at_ms": self.at_ms}
        if self.problem is not None:
            trouble = None if self.trouble is None else self.trouble.name.lower()
            return row | {"kind": "problem", "trouble": trouble, "says": self.problem}
        match self.note:
            case EventNote():
                fields = {each.name: each.text for each in self.note.fields}
                return row | {"kind": "event", "event": self.note.event, "fields": fields}
            case LogNote():
                return row | {"kind": "log", **lines_row(self.note.lines, self.note.left_out)}
            case ProgressNote():
                found = {"done": self.note.done, "total": self.note.total, "step_us": self.note.step_us}
                return row | {"kind": "progress", **found, **meter_row(self.note.meter)}
            case BeatNote():
                return row | {"kind": "beat"}
            case _:
                return row | {"kind": "other"}


def shown_line(line: LogLine) -> str:
    """A line of a program, and where it wrote it."""
    return f"{'err' if line.is_error else 'out'} {line.text}"


def lines_row(lines: Sequence[LogLine], left_out: int) -> dict[str, Any]:
    """Lines of a program, for programs."""
    shown = [{"at_ms": line.at_ms, "error": line.is_error, "text": line.text} for line in lines]
    return {"lines": shown, "left_out": left_out}


def meter_row(meter: DeviceMeter) -> dict[str, int]:
    """What a device is at."""
    return {
        "busy_percent": meter.busy_percent,
        "memory_bytes": meter.memory_bytes,
        "temperature_celsius": meter.temperature_celsius,
        "power_milliwatts": meter.power_milliwatts,
    }


def seconds_left(note: ProgressNote) -> int | None:
    """How long the rest takes at the pace of now; None while that is not known."""
    return (note.total - note.done) * note.step_us // 1_000_000 if note.step_us and note.done <= note.total else None


def _progress(note: ProgressNote) -> str:
    share = f", {100 * note.done // note.total} %" if note.total else ""
    left = seconds_left(note)
    text = f"step {note.done:,} of {note.total:,}{share}" + ("" if left is None else f", {left:,} s left")
    meter = note.meter
    if not meter.memory_bytes:
        return text
    watts, gib = meter.power_milliwatts // 1_000, meter.memory_bytes / 1024**3
    return f"{text}, GPU {meter.busy_percent} %, {gib:.1f} GiB, {meter.temperature_celsius} C, {watts} W"


@dataclass(slots=True)
class Complaints:
    """Says a problem of each kind a few times a minute, and how many more there were."""

    _since: float = field(default_factory=time.monotonic)
    _counts: dict[str, int] = field(default_factory=dict)

    def said(self, kind: str, text: str, now: float) -> list[str]:
        """What is to be said of a problem now; `now` in seconds of any clock that only goes forward."""
        told = []
        if now - self._since >= MINUTE:
            told = [f"{count - SAID_EACH_MINUTE} more: {kind}" for kind, count in self._counts.items()
                    if count > SAID_EACH_MINUTE]  # fmt: skip
            self._since, self._counts = now, {}
        if len(self._counts) >= KINDS_MAX and kind not in self._counts:
            return told
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return [*told, text] if self._counts[kind] <= SAID_EACH_MINUTE else told
