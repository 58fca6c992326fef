"""Events of the duties as notes for the broker, with a beat and each device's readings.

Invariant: only the customer of a task receives its events, and only while the task runs. Bids are never published.
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
"""The interval between NVML readings."""
BEAT_SAMPLES = 10
"""Samples between two beats, and between two notes about devices."""
WATCHED_MAX = 256
"""Tasks watched at once. A machine works on at most one for each device."""


class TaskWatch:
    """A receiver of a task's watchable events. This base class drops them. No method blocks or fails."""

    def begin(self, task: bytes, place: int, device: bytes, reader: bytes) -> None:
        """Begin to report a slot of a task, sealed to `reader` (X25519). A repeated call changes nothing."""

    def progress(self, task: bytes, done: int, total: int, step_us: int) -> None:
        """Report completed steps."""

    def lines(self, task: bytes, lines: Sequence[LogLine], left_out: int) -> None:
        """Report lines of the program's output, at most as many as one note holds.

        `left_out` counts the skipped lines before them.
        """

    def end(self, task: bytes) -> None:
        """Stop reporting the task."""


@dataclass(slots=True)
class _Watched:
    subject: TaskSubject
    device: bytes
    reader: bytes
    progress_at: float = -SAMPLE_SECONDS
    """The time of its last progress note. Steps may be much shorter than a second."""
    has_lines: bool = False
    """True if the broker retains lines of its program."""


class TaskBroadcast(TaskWatch):
    """A `Telemetry` and a `TaskWatch` that fill the outbox. Use `async with` to send notes and beats."""

    def __init__(self, sender: BrokerSender, outbox: NoteOutbox, workers: WorkerPool) -> None:
        """Sending begins with `async with`."""
        self._sender = sender
        self._note_outbox = outbox
        self._workshop = workers
        self._watched_tasks: dict[bytes, _Watched] = {}
        self._meters: dict[bytes, DeviceMeter] = {}
        self._gauge = Gauge()
        self._running: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Start to connect and send in the background."""
        self._running = [asyncio.create_task(self._sender.run()), asyncio.create_task(self._send_beats())]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop. Waiting notes are dropped."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._gauge.close()

    # -------------------------------------------------------------------------------------------------------- events

    def tell(self, event: str, **fields: Detail) -> None:
        """Report an event to the customer of its task, if the task is watched."""
        task_id = fields.get("task")
        watched = self._watched_tasks.get(task_id) if isinstance(task_id, bytes) else None
        if watched is None:
            return
        note_fields = []
        for field_name, value in fields.items():
            if field_name != "task":
                text = shortened_text(shown(value), TEXT_BYTES_MAX)
                note_fields.append(NoteField(shortened_text(field_name, WORD_BYTES_MAX), text))
        event_note = EventNote(shortened_text(event, WORD_BYTES_MAX), tuple(note_fields[:FIELDS_MAX]))
        self._queue_note(watched.subject, Channel.STATUS, event_note, watched.reader, is_retained=True)

    def begin(self, task: bytes, place: int, device: bytes, reader: bytes) -> None:
        """See `TaskWatch`."""
        # A request may name a bad reply key. Nothing could be sealed to it.
        if (task not in self._watched_tasks and len(self._watched_tasks) >= WATCHED_MAX) or not is_usable(reader):
            return
        watched = _Watched(TaskSubject(task, place), device, reader)
        if self._watched_tasks.get(task) is None or self._watched_tasks[task].subject != watched.subject:
            self._watched_tasks[task] = watched

    def progress(self, task: bytes, done: int, total: int, step_us: int) -> None:
        """See `TaskWatch`."""
        watched = self._watched_tasks.get(task)
        if watched is None:
            return
        now_seconds = time.monotonic()
        # The last step is always sent, so that the customer sees the end.
        if done == total or now_seconds - watched.progress_at >= SAMPLE_SECONDS:
            watched.progress_at = now_seconds
            meter_reading = self._meters.get(watched.device, NO_METER)
            progress_note = ProgressNote(done, total, step_us, meter_reading)
            self._queue_note(watched.subject, Channel.METRICS, progress_note, watched.reader)

    def lines(self, task: bytes, lines: Sequence[LogLine], left_out: int) -> None:
        """See `TaskWatch`. The broker retains the newest lines for later subscribers."""
        watched = self._watched_tasks.get(task)
        if watched is not None:
            watched.has_lines = True
            log_note = LogNote(tuple(lines), left_out)
            self._queue_note(watched.subject, Channel.LOG, log_note, watched.reader, is_retained=True)

    def end(self, task: bytes) -> None:
        """See `TaskWatch`."""
        watched = self._watched_tasks.pop(task, None)
        if watched is not None:
            self._note_outbox.forget(watched.subject)
            for channel in (Channel.STATUS, Channel.LOG) if watched.has_lines else (Channel.STATUS,):
                # MQTT 3.1.1, 3.3.1.3: an empty retained message removes the one that the broker keeps.
                self._queue_note(watched.subject, channel, None, None, is_retained=True)

    # ------------------------------------------------------------------------------------------- in the background

    async def _send_beats(self) -> NoReturn:
        beats_since = BEAT_SAMPLES
        while True:
            await self._sample(self._workshop.devices)
            if beats_since >= BEAT_SAMPLES and self._sender.is_connected:
                self._tell_beats()
                self._tell_devices()
                beats_since = 0
            beats_since += 1
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _sample(self, hardware_by_device: Mapping[bytes, Hardware]) -> None:
        for device_id, hardware in hardware_by_device.items():
            if hardware.index is not None:
                # In a thread, since a driver may block.
                self._meters[device_id] = DeviceMeter(*await asyncio.to_thread(self._gauge.read, hardware))

    def _tell_beats(self) -> None:
        for watched in self._watched_tasks.values():
            told_numbers = [self._sender.told(watched.subject, channel) for channel in (Channel.LOG, Channel.METRICS)]
            self._queue_note(watched.subject, Channel.STATUS, BeatNote(*told_numbers), watched.reader)

    def _tell_devices(self) -> None:
        for device_id, hardware in self._workshop.devices.items():
            shown_name = shortened_text(hardware.name, TEXT_BYTES_MAX)
            device_note = DeviceNote(
                shown_name, self._workshop.is_working(device_id), self._meters.get(device_id, NO_METER)
            )
            self._queue_note(DeviceSubject(device_id), Channel.STATUS, device_note, None, is_retained=True)

    def _queue_note(
        self,
        subject: Subject,
        channel: Channel,
        note: TelemetryNote | None,
        reader_key: bytes | None,
        *,
        is_retained: bool = False,
    ) -> None:
        now_ms = time.time_ns() // 1_000_000
        self._note_outbox.put(WaitingNote(subject, channel, note, now_ms, reader_key, is_retained))
