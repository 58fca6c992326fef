"""The time that consensus lives by: Unix milliseconds that never go back."""

from __future__ import annotations

import time

import trio

NANOSECONDS_PER_MS = 1_000_000


class Clock:
    """The system's clock, held still while somebody turns it back.

    `offset_ms` is for experiments with skewed clocks.
    """

    def __init__(self, offset_ms: int = 0) -> None:
        self._offset_ms = offset_ms
        self._last_ms = 0

    def now_ms(self) -> int:
        """Unix time in milliseconds, at least what was returned before."""
        self._last_ms = max(self._last_ms, time.time_ns() // NANOSECONDS_PER_MS + self._offset_ms)
        return self._last_ms

    def to_trio(self, at_ms: int) -> float:
        """The deadline, in trio's time, at which `now_ms` is `at_ms`."""
        return trio.current_time() + max(0, at_ms - self.now_ms()) / 1000
