"""Notes about running work: small, bounded records. They prove nothing, and no payment depends on them."""

from __future__ import annotations

from typing import Annotated

from gpu_tasks.data.program_left import LogLine
from runtime.encoding.codec import U8, U32, U64, Bounded, Tagged, codec, struct, variant

WORD_BYTES_MAX = 40
TEXT_BYTES_MAX = 400
FIELDS_MAX = 16
LINES_MAX = 64
NOTE_BYTES_MAX = 16 * 1024
"""The most bytes of one encoded note. A longer note is not sent."""

ShortText = Annotated[str, Bounded(WORD_BYTES_MAX)]


@struct
class NoteField:
    """A detail of an event, as text."""

    name: ShortText
    text: Annotated[str, Bounded(TEXT_BYTES_MAX)]


@variant(0)
class EventNote:
    """An event, as in the provider's own log."""

    event: ShortText
    fields: Annotated[tuple[NoteField, ...], Bounded(FIELDS_MAX)]


@variant(1)
class LogNote:
    """Lines of a program's output, in order."""

    lines: Annotated[tuple[LogLine, ...], Bounded(LINES_MAX)]
    left_out: U64
    """Lines left out between the previous note and this one, because the program wrote faster than notes are sent."""


@struct
class DeviceMeter:
    """NVML's readings of a GPU. A value that NVML does not give is 0, and so are all values of a CPU."""

    busy_percent: U8
    memory_bytes: U64
    temperature_celsius: U8
    power_milliwatts: U32


@variant(2)
class ProgressNote:
    """The progress of a run, and the readings of its device."""

    done: U64
    """Completed steps."""
    total: U64
    step_us: U64
    """Microseconds for one step; 0 while unknown."""
    meter: DeviceMeter


@variant(3)
class BeatNote:
    """A sign of life with the numbers of messages sent so far on the task's other channels in this session."""

    logs: U64
    progress: U64


@variant(4)
class DeviceNote:
    """The state of a device, for everyone."""

    name: Annotated[str, Bounded(TEXT_BYTES_MAX)]
    is_working: bool
    meter: DeviceMeter


@variant(5)
class PresenceNote:
    """The presence of the provider.

    The broker announces its absence with a message that the provider signed in advance.
    """

    is_here: bool


TelemetryNote = Annotated[
    EventNote | LogNote | ProgressNote | BeatNote | DeviceNote | PresenceNote, Tagged("ogpu::TelemetryNote")
]
NOTE = codec(TelemetryNote)
NO_METER = DeviceMeter(0, 0, 0, 0)


def shortened_text(long_text: str, bytes_max: int) -> str:
    """Return the longest prefix of a text that fits into `bytes_max` bytes of UTF-8."""
    # A cut may split a character, whose rest is dropped.
    return long_text.encode()[:bytes_max].decode(errors="ignore")
