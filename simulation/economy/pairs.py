"""Two sides of a book that must agree: what one part of the state claims, and what others add up to.

Always: a side holds no zeros, so sides of the same entries are equal; what changed since the last check is what the
next one looks at, so a step costs what it changes.
"""

from collections.abc import Callable
from typing import Any


class BooksBroken(Exception):
    """A grain, a hold, a count or a schedule is not where the state says."""


def equal(claimed: int, counted: int) -> bool:
    """Both are the same amount."""
    return claimed == counted


def at_most(claimed: int, counted: int) -> bool:
    """No more was counted than is claimed."""
    return counted <= claimed


def both_or_none(claimed: int, counted: int) -> bool:
    """There is something on both sides, or on none."""
    return bool(claimed) == bool(counted)


class Pair:
    """One book: by any key, what is claimed and what was counted."""

    def __init__(self, name: str, agree: Callable[[int, int], bool] = equal) -> None:
        """Begin with two empty sides, for which `agree` is to hold."""
        self.name = name
        self.claimed: dict[Any, int] = {}
        self.counted: dict[Any, int] = {}
        self._agree = agree
        self._changed: dict[Any, None] = {}

    def claim(self, key: Any, change: int) -> None:
        """Change what is claimed."""
        self._add(self.claimed, key, change)

    def count(self, key: Any, change: int) -> None:
        """Change what is counted."""
        self._add(self.counted, key, change)

    def check(self) -> None:
        """BooksBroken if the sides disagree where something changed since the last check."""
        for key in self._changed:
            claimed, counted = self.claimed.get(key, 0), self.counted.get(key, 0)
            if not self._agree(claimed, counted):
                raise BooksBroken(f"{self.name}, {told(key)}: claimed {claimed}, counted {counted}")
        self._changed.clear()

    def _add(self, side: dict[Any, int], key: Any, change: int) -> None:
        if not change:
            return
        after = side.get(key, 0) + change
        if after:
            side[key] = after
        else:
            del side[key]
        self._changed[key] = None


def told(key: Any) -> str:
    """A key as a person reads it: bytes by their first digits."""
    if isinstance(key, bytes):
        return f"0x{key[:6].hex()}"
    if isinstance(key, tuple):
        return " ".join(told(part) for part in key)
    reason = getattr(key, "reason", None)
    return f"{reason} {told(key.case)}" if reason is not None else str(key)
