"""What the duties tell of a task beside what the log says: whose it is, and how far it is."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_tasks.data.program_left import LogLine


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
