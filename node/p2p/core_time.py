"""The clock by which peers pay for CPU: seconds of a core that this process had, or left unused.

What always holds: while the process is busy, the clock goes on only as fast as the process gets CPU. A share of its
seconds is so a share of the CPU that the process really has, also where others use the same cores; a node that was
given a fifth of a core left strangers all of it, when their share was one of wall time.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter, thread_time

import trio

Seconds = Callable[[], float]


class CoreTime(trio.abc.Instrument):
    """Counts for the thread that made it: install it in that thread's trio run."""

    def __init__(self, cpu: Seconds = thread_time, wall: Seconds = perf_counter) -> None:
        self._cpu = cpu
        self._wall = wall
        self._idle = 0.0
        self._idle_since = 0.0

    def seconds(self) -> float:
        """CPU time of the thread, and the time in which it had nothing to do."""
        return self._cpu() + self._idle

    def before_io_wait(self, timeout: float) -> None:
        """Trio has nothing to run for `timeout` seconds, unless something arrives."""
        del timeout
        self._idle_since = self._wall()

    def after_io_wait(self, timeout: float) -> None:
        """Trio has something to run, or looked whether something arrived; then `timeout` is 0, and nothing was idle."""
        if timeout > 0:
            self._idle += self._wall() - self._idle_since
