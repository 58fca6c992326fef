"""The memory that this process holds for clients: messages in work, unread answers.

Invariant: the sum is at most the limit. If a client exceeds it, the client that holds most loses its connection, which
may be another one.
"""

from __future__ import annotations

import logging
import time
from typing import Protocol

HELD_BYTES_MAX = 256 * 1024 * 1024
LOG_SECONDS = 10.0
_LOG = logging.getLogger(__name__)


class Holder(Protocol):
    """A client whose memory can be freed."""

    def drop(self) -> None:
        """End the connection, and all work for it."""


class HeldBytes:
    """The number of bytes held for each client."""

    def __init__(self, limit_bytes: int = HELD_BYTES_MAX) -> None:
        """Create it empty."""
        self._limit_bytes = limit_bytes
        self._bytes_by_holder: dict[Holder, int] = {}
        self._total_bytes = 0
        self._peak_bytes = 0
        self._dropped_count = 0
        self._logged_at = float("-inf")

    @property
    def total(self) -> int:
        """The bytes held for all clients."""
        return self._total_bytes

    def take_peak(self) -> int:
        """Return the largest total since the last call."""
        peak_bytes, self._peak_bytes = self._peak_bytes, self._total_bytes
        return peak_bytes

    def of(self, holder: Holder) -> int:
        """Return the bytes held for one client."""
        return self._bytes_by_holder.get(holder, 0)

    def change(self, holder: Holder, delta_bytes: int) -> None:
        """Hold `delta_bytes` more bytes (or fewer) for a client; beyond the limit the client with most is dropped."""
        self._bytes_by_holder[holder] = self._bytes_by_holder.get(holder, 0) + delta_bytes
        self._total_bytes += delta_bytes
        self._peak_bytes = max(self._peak_bytes, self._total_bytes)
        while self._total_bytes > self._limit_bytes:
            largest_holder = max(self._bytes_by_holder, key=self._bytes_by_holder.__getitem__)
            self.forget(largest_holder)
            self.drop(largest_holder)

    def forget(self, holder: Holder) -> None:
        """Forget a client, for which nothing is held any more."""
        self._total_bytes -= self._bytes_by_holder.pop(holder, 0)

    def drop(self, holder: Holder) -> None:
        """End a client's connection because of its memory; the log has one line once in a while."""
        holder.drop()
        self._dropped_count += 1
        # A stranger may return as often as it likes, so the log is bounded by time.
        if time.monotonic() - self._logged_at >= LOG_SECONDS:
            _LOG.info("dropped %d clients that do not read, or ask for too much at once", self._dropped_count)
            self._logged_at, self._dropped_count = time.monotonic(), 0
