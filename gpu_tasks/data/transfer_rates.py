"""How fast blobs of some size came and went lately. Always: a bounded number of transfers is remembered."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

BYTES_MIN = 128 * 1024
"""Of a transfer that says something of the line, and not of the way to and fro alone."""
KEPT = 32
BITS = 8


@dataclass(slots=True)
class TransferRates:
    """Kilobits a second; 0 where nothing was measured."""

    _down: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))
    _up: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))

    @property
    def down_kbit(self) -> int:
        """The fastest that came."""
        return max(self._down, default=0)

    @property
    def up_kbit(self) -> int:
        """The fastest that went, up to the other's answer."""
        return max(self._up, default=0)

    def note(self, seconds: float, *, sent: int, received: int) -> None:
        """A transfer of so many bytes took so long, question and answer together."""
        size, rates = (sent, self._up) if sent > received else (received, self._down)
        if size >= BYTES_MIN and seconds > 0:
            rates.append(int(size * BITS / seconds / 1_000))
