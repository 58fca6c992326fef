"""Which blob stores were slow of late: they are asked after all others, so one of them costs its wait once."""

from __future__ import annotations

from collections.abc import Iterable

SLOW_FOR_SECONDS = 600.0
STORES_KEPT = 4_096


class SlowStores:
    """Times are seconds of a clock that only goes forward."""

    def __init__(self) -> None:
        """None was slow."""
        self._until: dict[str, float] = {}

    def note_slow(self, endpoint: str, now: float) -> None:
        """It kept somebody waiting."""
        self._until.pop(endpoint, None)
        self._until[endpoint] = now + SLOW_FOR_SECONDS
        while len(self._until) > STORES_KEPT:
            del self._until[next(iter(self._until))]

    def note_quick(self, endpoint: str) -> None:
        """It answered in time."""
        self._until.pop(endpoint, None)

    def last(self, endpoints: Iterable[str], now: float) -> list[str]:
        """The endpoints in their order, once each, but for the slow ones, which come last."""
        known = list(dict.fromkeys(endpoints))
        return sorted(known, key=lambda endpoint: self._until.get(endpoint, 0.0) > now)
