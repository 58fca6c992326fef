"""What an attempt is: a name, what it tries, and a coroutine that tries it and says what must hold."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from devnet.proofs.escape.scene import EscapeScene


@dataclass(slots=True)
class EscapeChecks:
    """What was looked at, and what did not hold."""

    held: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)

    def that(self, holds: object, what: str, seen: object = "") -> None:
        """Note a bar; `seen` says what there was instead."""
        (self.held if holds else self.misses).append(f"{what}: {str(seen)[:300]}" if str(seen) else what)


TryEscape = Callable[[EscapeScene, EscapeChecks], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class EscapeAttempt:
    """One way to leave."""

    name: str
    tries: str
    act: TryEscape


def attempt(act: TryEscape) -> EscapeAttempt:
    """Make an attempt of a coroutine function: its name is the function's, what it tries is its docstring."""
    return EscapeAttempt(getattr(act, "__name__", ""), " ".join((inspect.getdoc(act) or "").split()), act)
