"""What a provider has earned, one line for each unit, task or case that paid, in a file of the base path.

Always: a payment is written before the journal forgets that it was awaited, so that none is lost; one that a crash had
written twice counts once; amounts are grains after fees.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

LOG = logging.getLogger("ogpu.provider")
EARNINGS_FILE = "earnings.jsonl"
LINE_BYTES_MAX = 4_096
AT_MS_MAX = 1 << 45
"""A thousand years from 1970."""


class By(Enum):
    """What payments are added up by."""

    DEVICE = "device"
    SERVICE = "service"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class EarnedPayment:
    """One that came in."""

    at_ms: int
    """When it was noted, in milliseconds since 1970."""
    name: str
    """Of the unit or the task, with its attempt or auction."""
    device: str
    service: str
    """A service's number, or what a task computes."""
    grains: int
    tokens: int = 0
    """Output tokens of the unit that was paid for; 0 where it was for no unit."""

    @property
    def day(self) -> str:
        """UTC."""
        return datetime.fromtimestamp(self.at_ms // 1_000, UTC).date().isoformat()


@dataclass(frozen=True, slots=True)
class EarnedSum:
    """Payments of one device, service or day."""

    name: str
    payments: int
    grains: int
    tokens: int = 0
    """Of the units among what was paid for."""
    token_grains: int = 0
    """What of it was for those units."""

    @property
    def per_thousand(self) -> int | None:
        """Grains for a thousand output tokens, rounded down; None where none was paid for."""
        return self.token_grains * 1_000 // self.tokens if self.tokens else None


class EarningsBook:
    """Appends to the file of a base path. A full disk costs the line, not the work."""

    def __init__(self, path: Path, clock: Callable[[], int] = time.time_ns) -> None:
        """`clock` gives nanoseconds since 1970."""
        self._path = path
        self._clock = clock

    def note(
        self, kind: str, name: bytes, number: int, *, device: bytes, service: str, grains: int, tokens: int = 0
    ) -> None:
        """A unit, a task or a case has paid; `device` is empty where no device of its own earned it."""
        if not grains:
            return
        line = {
            "at_ms": self._clock() // 1_000_000,
            "name": f"{kind} 0x{name.hex()} {number}",
            "device": f"0x{device.hex()}" if device else "none",
            "service": service,
            "grains": grains,
            "tokens": tokens,
        }
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            LOG.warning("a payment of %d grains is not written down: %s", grains, error)


def payments(path: Path) -> Iterator[EarnedPayment]:
    """All payments, each once, in the order in which they came; a line that is none, half written say, is left out."""
    seen: set[str] = set()
    try:
        file = path.open(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    with file:
        while line := file.readline(LINE_BYTES_MAX):
            found = _payment(line)
            if found is not None and found.name not in seen:
                seen.add(found.name)
                yield found


def sums(found: Iterable[EarnedPayment], by: By) -> list[EarnedSum]:
    """Payments added up, by ascending name."""
    totals: dict[str, EarnedSum] = {}
    for payment in found:
        name = {By.DEVICE: payment.device, By.SERVICE: payment.service, By.DAY: payment.day}[by]
        before = totals.get(name, EarnedSum(name, 0, 0))
        totals[name] = EarnedSum(
            name,
            before.payments + 1,
            before.grains + payment.grains,
            before.tokens + payment.tokens,
            before.token_grains + (payment.grains if payment.tokens else 0),
        )
    return [totals[name] for name in sorted(totals)]


def as_csv(found: Iterable[EarnedSum], by: By) -> str:
    """For a spreadsheet: a head, then a line for each."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((by.value, "payments", "grains", "tokens", "grains_per_thousand"))
    writer.writerows((each.name, each.payments, each.grains, each.tokens, each.per_thousand) for each in found)
    return text.getvalue()


def _payment(line: str) -> EarnedPayment | None:
    try:
        given: Any = json.loads(line)
        found = EarnedPayment(**given) if isinstance(given, dict) else None
    except (ValueError, TypeError):
        return None
    return found if found is not None and _is_sound(found) else None


def _is_sound(found: EarnedPayment) -> bool:
    """Whether what a file says of a payment can be shown and added."""
    fields: dict[str, Any] = asdict(found)
    numbers = ("at_ms", "grains", "tokens")
    is_of_form = all(isinstance(value, int if name in numbers else str) for name, value in fields.items())
    return is_of_form and 0 <= found.at_ms < AT_MS_MAX and found.grains > 0 and found.tokens >= 0
