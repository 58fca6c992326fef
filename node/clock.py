"""The time of consensus: Unix milliseconds that never decrease.

Invariant: the clock follows the system's clock while that agrees with the machine's own count of time. A jump counts
only after it has lasted, so a clock that is set wrong and soon right again has no effect.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import trio

from node.errors import NodeError

NANOSECONDS_PER_MS = 1_000_000
JUMP_MS = 2_000
"""The least difference between the two clocks that is a jump, and no correction of drift."""
TRUST_MS = 60_000
"""The time that a jump has to last before the clock follows it."""
_LOG = logging.getLogger(__name__)


def boot_time_ns() -> int:
    """Return the machine's time since its start, which cannot be set and includes sleep."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Clock:
    """The system's clock without its jumps; `offset_ms` is for experiments with skewed clocks."""

    def __init__(
        self,
        offset_ms: int = 0,
        wall_ns: Callable[[], int] = time.time_ns,
        steady_ns: Callable[[], int] = boot_time_ns,
    ) -> None:
        self._offset_ms = offset_ms
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns
        self._last_ms = 0
        self._ahead_ms = self._wall_ms() - self._steady_ms()
        self._jumped_at_ms: int | None = None

    def now_ms(self) -> int:
        """Return Unix time in milliseconds, at least the last returned value.

        Raise `NodeError` if the clock was turned back for good: waiting for it would be worse.
        """
        steady_ms = self._steady_ms()
        jump_ms = self._wall_ms() - steady_ms - self._ahead_ms
        if abs(jump_ms) < JUMP_MS:
            self._ahead_ms += jump_ms
            self._jumped_at_ms = None
        else:
            self._on_jump(jump_ms, steady_ms)
        self._last_ms = max(self._last_ms, steady_ms + self._ahead_ms)
        return self._last_ms

    def to_trio(self, at_ms: int) -> float:
        """Return the deadline, in trio's time, at which `now_ms` is `at_ms`."""
        return trio.current_time() + max(0, at_ms - self.now_ms()) / 1000

    def _on_jump(self, jump_ms: int, steady_ms: int) -> None:
        if self._jumped_at_ms is None:
            self._jumped_at_ms = steady_ms
            _LOG.warning(
                "the system's clock jumped by %+.1f s. The node takes the new time if it lasts %d s",
                jump_ms / 1000, TRUST_MS // 1000,
            )  # fmt: skip
        if steady_ms - self._jumped_at_ms < TRUST_MS:
            return
        if jump_ms < 0:
            # Waiting, a validator would miss its slots and rounds for as long as the clock had been ahead.
            raise NodeError(
                f"the system's clock was turned back by {-jump_ms / 1000:.1f} s. Start this node again: it begins "
                "with the new time. Synchronise the clock by NTP",
                code="clock_turned_back",
            )
        self._ahead_ms += jump_ms
        self._jumped_at_ms = None

    def _wall_ms(self) -> int:
        return self._wall_ns() // NANOSECONDS_PER_MS + self._offset_ms

    def _steady_ms(self) -> int:
        return self._steady_ns() // NANOSECONDS_PER_MS
