"""Notes that wait for the broker. What finds no room is thrown away, the least telling first, and counted.

Always: putting a note in takes no time and never fails; a note that is being sent stays until it is sent, and is sent
again after a broken connection with the same number, so that a reader counts it once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from gpu_tasks.telemetry.envelope import Channel, DeviceSubject, ProviderSubject, TaskSubject
from gpu_tasks.telemetry.notes import TelemetryNote

NOTES_MAX = 1_000
"""Of at most 16 KiB each."""
THROWN_FIRST = (Channel.METRICS, Channel.LOG, Channel.STATUS)

Subject = TaskSubject | DeviceSubject | ProviderSubject


@dataclass(frozen=True, slots=True)
class WaitingNote:
    """A note, to whom it goes, and when it was told, in milliseconds since 1970. None takes back what is kept."""

    subject: Subject
    channel: Channel
    note: TelemetryNote | None
    told_at_ms: int
    reader: bytes | None = None
    """Whom it is sealed to; None: everybody."""
    is_retained: bool = False
    """Whether the broker is to keep it for whoever comes later."""


class NoteOutbox:
    """A queue with one reader."""

    def __init__(self) -> None:
        """Empty."""
        self._waiting: deque[WaitingNote] = deque()
        self._dropped: dict[tuple[Subject, Channel], int] = {}
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def put(self, note: WaitingNote) -> None:
        """Let a note wait; where there is no room, another one goes."""
        self._waiting.append(note)
        if len(self._waiting) > NOTES_MAX:
            self._drop_least()
        self._filled.set()

    async def first(self) -> WaitingNote:
        """The note that has waited longest, which stays."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        return self._waiting[0]

    def sent(self, note: WaitingNote) -> None:
        """It waits no more; nothing if it was thrown away meanwhile."""
        if self._waiting and self._waiting[0] is note:
            self._waiting.popleft()

    def take_dropped(self, note: WaitingNote) -> int:
        """How many notes of its channel were thrown away since this was asked last."""
        return self._dropped.pop((note.subject, note.channel), 0)

    def forget(self, subject: Subject) -> None:
        """Nobody is told any more what was thrown away of it."""
        for line in [line for line in self._dropped if line[0] == subject]:
            del self._dropped[line]

    def _drop_least(self) -> None:
        """Drop what is missed least: the oldest of the first kind that there is, the one that is being sent apart."""
        place = min(range(1, len(self._waiting)), key=lambda each: THROWN_FIRST.index(self._waiting[each].channel))
        note = self._waiting[place]
        del self._waiting[place]
        line = (note.subject, note.channel)
        self._dropped[line] = self._dropped.get(line, 0) + 1
