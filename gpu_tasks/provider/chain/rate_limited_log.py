"""Warnings that come with every block, told once in a while."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

from wallet.errors import harmless

AGAIN_SECONDS = 5.0
KINDS_MAX = 64
LOG = logging.getLogger("ogpu.provider")
_NUMBERS = re.compile(r"\b(0x)?[0-9a-f]{8,}\b|[0-9]+")


class RateLimitedLog:
    """Passes a text on, unless one that differs from it in numbers only was passed on just now."""

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was told."""
        self._tell = tell
        self._clock = clock
        self._told: dict[str, float] = {}

    def __call__(self, text: str) -> None:
        """Tell it, or not."""
        kind, now = _NUMBERS.sub("", text), self._clock()
        if kind in self._told and now < self._told[kind] + AGAIN_SECONDS:
            return
        if len(self._told) >= KINDS_MAX:  # a node chooses what it says
            self._told.clear()
        self._told[kind] = now
        self._tell(text)


def warn(text: str) -> None:
    """What its operator should know of the node."""
    LOG.warning("%s", harmless(text))
