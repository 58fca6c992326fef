"""What the duties tell of a task beside what the log says: whose it is, and how far it is. An interface."""

from __future__ import annotations

from typing import Protocol


class TaskWatch(Protocol):
    """Takes what a task's customer may watch. None of it waits, or fails."""

    def begin(self, task: bytes, place: int, device: bytes, reader: bytes) -> None:
        """A slot of a task is worked on: its notes are sealed to `reader` (X25519). Saying it again changes nothing."""
        ...

    def progress(self, task: bytes, done: int, total: int, step_us: int) -> None:
        """So many of its steps are done."""
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

    def end(self, task: bytes) -> None:
        """Nothing was told."""
