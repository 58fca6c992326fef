"""From what the duties tell to notes for the broker, with a beat and what each device is at.

Always: of a task only what happens while one works on it is told, to its customer alone; a bid is nobody's business.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Self

from gpu_tasks.data.program_left import LogLine
from gpu_tasks.data.sealing import is_usable
from gpu_tasks.provider.execution.gpu import Gauge, Hardware
from gpu_tasks.provider.execution.worker_pool import WorkerPool
from gpu_tasks.provider.telemetry import Detail, shown
from gpu_tasks.provider.watching.outbox import NoteOutbox, Subject, WaitingNote
from gpu_tasks.provider.watching.sender import BrokerSender
from gpu_tasks.telemetry.envelope import Channel, DeviceSubject, TaskSubject
from gpu_tasks.telemetry.notes import (
    FIELDS_MAX,
    NO_METER,
    TEXT_BYTES_MAX,
    WORD_BYTES_MAX,
    BeatNote,
    DeviceMeter,
    DeviceNote,
    EventNote,
    LogNote,
    NoteField,
    ProgressNote,
    TelemetryNote,
    shortened_text,
)

SAMPLE_SECONDS = 1.0
"""NVML is asked once a second."""
BEAT_SAMPLES = 10
"""Beats and devices are told so many samples apart."""
WATCHED_MAX = 256
"""Tasks at once: a machine works on as many as it has devices."""


class TaskWatch:
    """Takes what a task's customer may watch; this one keeps it to itself. None of it waits, or fails."""

    def begin(self, task: bytes, place: int, device: bytes, reader: bytes) -> None:
        """A slot of a task is worked on: its notes are sealed to `reader` (X25519). Saying it again changes nothing."""

    def progress(self, task: bytes, done: int, total: int, step_us: int) -> None:
        """So many of its steps are done."""

    def lines(self, task: bytes, lines: Sequence[LogLine], left_out: int) -> None:
        """Its program wrote these, and so many before them that are not told; at most what one note has room for."""

    def end(self, task: bytes) -> None:
        """Nothing more is told of it."""


@dataclass(slots=True)
class _Watched:
    subject: TaskSubject
    device: bytes
    reader: bytes
    progress_at: float = -SAMPLE_SECONDS
    """When its progress was told last: steps may be much shorter than a second."""
    has_lines: bool = False
    """Whether the broker keeps lines of its program."""


class TaskBroadcast(TaskWatch):
    """A `Telemetry` and a `TaskWatch` that fill the outbox. Use `async with`, which sends and beats meanwhile."""

    def __init__(self, sender: BrokerSender, outbox: NoteOutbox, workers: WorkerPool) -> None:
        """Nothing is sent before it is entered."""
        self._sender = sender
        self._outbox = outbox
        self._workshop = workers
        self._watched: dict[bytes, _Watched] = {}
        self._meters: dict[bytes, DeviceMeter] = {}
        self._gauge = Gauge()
        self._running: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Connect, and go on in the background."""
        self._running = [asyncio.create_task(self._sender.run()), asyncio.create_task(self._beat())]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop; what still waits is not told."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._gauge.close()

    # ------------------------------------------------------------------------------------------------- what is told

    def tell(self, event: str, **fields: Detail) -> None:
        """An event; of a task that one works on, its customer hears of it."""
        task = fields.get("task")
        watched = self._watched.get(task) if isinstance(task, bytes) else None
        if watched is None:
            return
        details = [NoteField(shortened_text(name, WORD_BYTES_MAX), shortened_text(shown(value), TEXT_BYTES_MAX))
                   for name, value in fields.items() if name != "task"]  # fmt: skip
        note = EventNote(shortened_text(event, WORD_BYTES_MAX), tuple(details[:FIELDS_MAX]))
        self._put(watched.subject, Channel.STATUS, note, watched.reader, is_retained=True)

    def begin(self, task: bytes, place: int, device: bytes, reader: bytes) -> None:
        """See `TaskWatch`."""
        if (task not in self._watched and len(self._watched) >= WATCHED_MAX) or not is_usable(reader):
            return
        watched = _Watched(TaskSubject(task, place), device, reader)
        if self._watched.get(task) is None or self._watched[task].subject != watched.subject:
            self._watched[task] = watched

    def progress(self, task: bytes, done: int, total: int, step_us: int) -> None:
        """See `TaskWatch`."""
        watched = self._watched.get(task)
        if watched is None:
            return
        now = time.monotonic()
        if done == total or now - watched.progress_at >= SAMPLE_SECONDS:
            watched.progress_at = now
            meter = self._meters.get(watched.device, NO_METER)
            note = ProgressNote(done, total, step_us, meter)
            self._put(watched.subject, Channel.METRICS, note, watched.reader)

    def lines(self, task: bytes, lines: Sequence[LogLine], left_out: int) -> None:
        """See `TaskWatch`. The newest are kept by the broker for whoever comes later."""
        watched = self._watched.get(task)
        if watched is not None:
            watched.has_lines = True
            note = LogNote(tuple(lines), left_out)
            self._put(watched.subject, Channel.LOG, note, watched.reader, is_retained=True)

    def end(self, task: bytes) -> None:
        """See `TaskWatch`."""
        watched = self._watched.pop(task, None)
        if watched is not None:
            self._outbox.forget(watched.subject)
            for channel in (Channel.STATUS, Channel.LOG) if watched.has_lines else (Channel.STATUS,):
                self._put(watched.subject, channel, None, None, is_retained=True)

    # ------------------------------------------------------------------------------------------- in the background

    async def _beat(self) -> NoReturn:
        since = BEAT_SAMPLES
        while True:
            await self._sample(self._workshop.devices)
            if since >= BEAT_SAMPLES and self._sender.is_connected:
                self._tell_beats()
                self._tell_devices()
                since = 0
            since += 1
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _sample(self, devices: Mapping[bytes, Hardware]) -> None:
        for device, hardware in devices.items():
            if hardware.index is not None:
                self._meters[device] = DeviceMeter(*await asyncio.to_thread(self._gauge.read, hardware))

    def _tell_beats(self) -> None:
        for watched in self._watched.values():
            told = [self._sender.told(watched.subject, channel) for channel in (Channel.LOG, Channel.METRICS)]
            self._put(watched.subject, Channel.STATUS, BeatNote(*told), watched.reader)

    def _tell_devices(self) -> None:
        for device, hardware in self._workshop.devices.items():
            name = shortened_text(hardware.name, TEXT_BYTES_MAX)
            note = DeviceNote(name, self._workshop.is_working(device), self._meters.get(device, NO_METER))
            self._put(DeviceSubject(device), Channel.STATUS, note, None, is_retained=True)

    def _put(
        self,
        subject: Subject,
        channel: Channel,
        note: TelemetryNote | None,
        reader: bytes | None,
        *,
        is_retained: bool = False,
    ) -> None:
        now_ms = time.time_ns() // 1_000_000
        self._outbox.put(WaitingNote(subject, channel, note, now_ms, reader, is_retained))
