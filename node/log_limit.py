"""Lines of the log, bounded for each cause: what a stranger can make this node say costs no disk.

What always holds: each place in the code writes at most `BURST` lines at once and then one a second, and what was left
out is counted in its next line; errors and what is worse are bounded as the rest is, since they are repeated as easily.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

BURST = 20
CAUSES_MAX = 1_024
PROGRESS = "node"
"""The logger of what this node does by itself: lines that nobody else can multiply."""


@dataclass(slots=True)
class _Cause:
    """One place in the code that logs."""

    tokens: float
    updated_at: float
    left_out: int = 0


class LogLimit(logging.Filter):
    """Lets one line a second of each cause through."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._now = now
        self._causes: OrderedDict[tuple[str, int], _Cause] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this line is written; it says how many were not."""
        if record.name == PROGRESS:
            return True
        now = self._now()
        place = (record.pathname, record.lineno)
        cause = self._causes.setdefault(place, _Cause(BURST, now))
        if len(self._causes) > CAUSES_MAX:
            self._causes.popitem(last=False)
        cause.tokens = min(BURST, cause.tokens + now - cause.updated_at)
        cause.updated_at = now
        if cause.tokens < 1:
            cause.left_out += 1
            return False
        cause.tokens -= 1
        if cause.left_out:
            record.msg = f"{record.getMessage()} ({cause.left_out} lines like this were left out)"
            record.args = None
            cause.left_out = 0
        return True
