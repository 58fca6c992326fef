"""What the duties tell of a task beside what the log says: whose it is, and how far it is. An interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpu_tasks.data.program_left import LogLine


class TaskWatch(Protocol):
    """Takes what a task's customer may watch. None of it waits, or fails."""

    def begin(self, task: bytes, place: int, device: bytes, reader: bytes) -> None:
        """A slot of a task is worked on: its notes are sealed to `reader` (X25519). Saying it again changes nothing."""
        ...

    def progress(self, task: bytes, done: int, total: int, step_us: int) -> None:
        """So many of its steps are done."""
        ...

    def lines(self, task: bytes, lines: Sequence[LogLine], left_out: int) -> None:
        """Its program wrote these, and so many before them that are not told; at most what one note has room for."""
        ...

    def end(self, task: bytes) -> None:
        """Nothing more is told of it."""
        ...


class NobodyWatches:
    """A provider without a broker."""

    def begin(self, task: bytes, place: int, device: bytes, reader: bytes) -> None:
        """Nothing is told."""

    def progress(self, task: bytes, done: int, total: int, step_us: int) -> None:
        """Nothing is told."""

    def lines(self, task: bytes, lines: Sequence[LogLine], left_out: int) -> None:
        """Nothing is told."""

    def end(self, task: bytes) -> None:
        """Nothing was told."""
