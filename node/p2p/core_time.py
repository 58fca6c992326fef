"""The clock by which peers pay for CPU: seconds of a core that this process had, or left unused.

Always: while the process is busy, the clock advances only as fast as the process gets CPU. So a share of its seconds is
a share of the CPU that the process really has, also on shared cores. With shares of wall time, strangers got all of a
node's CPU if the node had only a fifth of a core.
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
        """Return the thread's CPU time plus its idle time."""
        return self._cpu() + self._idle

    def before_io_wait(self, timeout: float) -> None:
        """Begin an idle time of at most `timeout` seconds, unless something arrives."""
        del timeout
        self._idle_since = self._wall()

    def after_io_wait(self, timeout: float) -> None:
        """End an idle time; a `timeout` of 0 means that trio only polled, without idle time."""
        if timeout > 0:
            self._idle += self._wall() - self._idle_since
