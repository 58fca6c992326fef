"""The memory that clients make this process hold: messages being worked on, answers not read yet.

Invariant: together they are no more than the limit; who makes it overflow costs the one that holds most its
connection, which need not be the same.
"""

from __future__ import annotations

import logging
import time
from typing import Protocol

HELD_BYTES_MAX = 256 * 1024 * 1024
LOG_SECONDS = 10.0
_LOG = logging.getLogger(__name__)


class Holder(Protocol):
    """Somebody whose memory can be had back."""

    def drop(self) -> None:
        """End the connection, and what is done for it."""


class HeldBytes:
    """How much is held for whom."""

    def __init__(self, limit: int = HELD_BYTES_MAX) -> None:
        """Nothing."""
        self._limit = limit
        self._held: dict[Holder, int] = {}
        self._total = 0
        self._peak = 0
        self._dropped = 0
        self._logged_at = float("-inf")

    @property
    def total(self) -> int:
        """Bytes held for all."""
        return self._total

    def take_peak(self) -> int:
        """Return the most that was held since this was asked last."""
        peak, self._peak = self._peak, self._total
        return peak

    def of(self, holder: Holder) -> int:
        """Bytes held for one."""
        return self._held.get(holder, 0)

    def change(self, holder: Holder, size: int) -> None:
        """Hold `size` more bytes, or less, for somebody; beyond the limit whoever holds most is dropped."""
        self._held[holder] = self._held.get(holder, 0) + size
        self._total += size
        self._peak = max(self._peak, self._total)
        while self._total > self._limit:
            greatest = max(self._held, key=self._held.__getitem__)
            self.forget(greatest)
            self.drop(greatest)

    def forget(self, holder: Holder) -> None:
        """Nothing is held for it any more."""
        self._total -= self._held.pop(holder, 0)

    def drop(self, holder: Holder) -> None:
        """End a connection for what it holds; one line says so, once in a while."""
        holder.drop()
        self._dropped += 1
        # A stranger may come back as often as it likes: the log is bounded by time.
        if time.monotonic() - self._logged_at >= LOG_SECONDS:
            _LOG.info("dropped %d clients that do not read, or ask for too much at once", self._dropped)
            self._logged_at, self._dropped = time.monotonic(), 0
