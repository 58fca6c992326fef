"""A queue of notes for the broker. If it is full, it drops and counts the least important notes.

Invariants:

* Adding a note neither blocks nor fails.
* A note stays until it is sent. After a broken connection it is sent again with the same number, so a reader counts it
  once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from gpu_tasks.telemetry.envelope import Channel, DeviceSubject, ProviderSubject, TaskSubject
from gpu_tasks.telemetry.notes import TelemetryNote

NOTES_MAX = 1_000
"""Notes, each of at most 16 KiB."""
THROWN_FIRST = (Channel.METRICS, Channel.LOG, Channel.STATUS)

Subject = TaskSubject | DeviceSubject | ProviderSubject


@dataclass(frozen=True, slots=True)
class WaitingNote:
    """A note with its recipient and time, in milliseconds since 1970. The note None removes a retained message."""

    subject: Subject
    channel: Channel
    note: TelemetryNote | None
    told_at_ms: int
    reader: bytes | None = None
    """The X25519 key to which the note is sealed; None if it is public."""
    is_retained: bool = False
    """True if the broker keeps the note for later subscribers."""


class NoteOutbox:
    """A queue with one reader."""

    def __init__(self) -> None:
        """The queue begins empty."""
        self._waiting: deque[WaitingNote] = deque()
        self._dropped: dict[tuple[Subject, Channel], int] = {}
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of waiting notes."""
        return len(self._waiting)

    def put(self, waiting: WaitingNote) -> None:
        """Add a note. If the queue is full, drop another one."""
        self._waiting.append(waiting)
        if len(self._waiting) > NOTES_MAX:
            self._drop_least()
        self._filled.set()

    async def first(self) -> WaitingNote:
        """Return the oldest note without removing it."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        return self._waiting[0]

    def sent(self, waiting: WaitingNote) -> None:
        """Remove a sent note, unless it was dropped meanwhile."""
        if self._waiting and self._waiting[0] is waiting:
            self._waiting.popleft()

    def take_dropped(self, waiting: WaitingNote) -> int:
        """Return the number of notes dropped from this note's channel since the last call."""
        return self._dropped.pop((waiting.subject, waiting.channel), 0)

    def forget(self, subject: Subject) -> None:
        """Forget the counts of dropped notes about a subject."""
        for line in [line for line in self._dropped if line[0] == subject]:
            del self._dropped[line]

    def _drop_least(self) -> None:
        """Drop the oldest note of the least important channel, except the note being sent."""
        # The first note may be in transit, and must keep its number and place.
        dropped_index = min(
            range(1, len(self._waiting)),
            key=lambda waiting_index: THROWN_FIRST.index(self._waiting[waiting_index].channel),
        )
        dropped_note = self._waiting[dropped_index]
        del self._waiting[dropped_index]
        line = (dropped_note.subject, dropped_note.channel)
        self._dropped[line] = self._dropped.get(line, 0) + 1
