"""What may be told of work: small, bounded records. None of it is proof of anything, and no payment depends on it."""

from __future__ import annotations

from typing import Annotated

from gpu_tasks.data.program_left import LogLine
from runtime.encoding.codec import U8, U32, U64, Bounded, Tagged, codec, struct, variant

WORD_BYTES_MAX = 40
TEXT_BYTES_MAX = 400
FIELDS_MAX = 16
LINES_MAX = 64
NOTE_BYTES_MAX = 16 * 1024
"""Of one note, encoded: what is longer is not told."""

ShortText = Annotated[str, Bounded(WORD_BYTES_MAX)]


@struct
class NoteField:
    """A detail, as text."""

    name: ShortText
    text: Annotated[str, Bounded(TEXT_BYTES_MAX)]


@variant(0)
class EventNote:
    """Something happened: the same events that the provider's own log has."""

    event: ShortText
    fields: Annotated[tuple[NoteField, ...], Bounded(FIELDS_MAX)]


@variant(1)
class LogNote:
    """Lines of a program's output, in their order."""

    lines: Annotated[tuple[LogLine, ...], Bounded(LINES_MAX)]
    left_out: U64
    """Lines between those of the note before and these that were not told: the program wrote faster than is told."""


@struct
class DeviceMeter:
    """What NVML says of a GPU at a moment. 0 is what it does not say, and all of it for a CPU."""

    busy_percent: U8
    memory_bytes: U64
    temperature_celsius: U8
    power_milliwatts: U32


@variant(2)
class ProgressNote:
    """How far a run is, and what its device is at."""

    done: U64
    """Steps."""
    total: U64
    step_us: U64
    """What a step takes; 0 while it is not known."""
    meter: DeviceMeter


@variant(3)
class BeatNote:
    """The provider is there, and has told so many messages of the other channels of this task in this session."""

    logs: U64
    progress: U64


@variant(4)
class DeviceNote:
    """A device, for everybody."""

    name: Annotated[str, Bounded(TEXT_BYTES_MAX)]
    is_working: bool
    meter: DeviceMeter


@variant(5)
class PresenceNote:
    """Whether the provider is connected. That it is gone says the broker, with words that were signed before."""

    is_here: bool


TelemetryNote = Annotated[
    EventNote | LogNote | ProgressNote | BeatNote | DeviceNote | PresenceNote, Tagged("ogpu::TelemetryNote")
]
NOTE = codec(TelemetryNote)
NO_METER = DeviceMeter(0, 0, 0, 0)


def shortened_text(text: str, bytes_max: int) -> str:
    """As much of a text as fits into so many bytes of UTF-8."""
    return text.encode()[:bytes_max].decode(errors="ignore")
