"""A provider's earnings and losses, one line each, in two files of the base path.

Invariants:

* A payment is written before the journal forgets that it is due, so none is lost.
* A payment that a crash caused to be written twice counts once.
* Amounts are in grains after fees.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter

from wallet.private_file import own_opener

LOG = logging.getLogger("ogpu.provider")
EARNINGS_FILE, LOSSES_FILE = "earnings.jsonl", "losses.jsonl"
LINE_BYTES_MAX = 4_096
AT_MS_MAX = 1 << 45
"""A thousand years after 1970."""
LOST_SERVICE = "lost bond"
LOSS_COLUMNS = ("noted", "device", "fault", "grains", "block", "case", "appealable_until_block", "appealable_until")


BookLine = TypeVar("BookLine", "EarnedPayment", "LostPart")
Count = Annotated[int, Field(strict=True, ge=0)]
PaidGrains = Annotated[int, Field(strict=True, gt=0)]
Time = Annotated[int, Field(strict=True, ge=0, lt=AT_MS_MAX)]
"""In milliseconds since 1970."""


class By(Enum):
    """The grouping of payments."""

    DEVICE = "device"
    SERVICE = "service"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class EarnedPayment:
    """A received payment."""

    at_ms: Time
    """The time at which it was noted, in milliseconds since 1970."""
    name: str
    """The unit or task, with its attempt or auction."""
    device: str
    service: str
    """A service's number, or the kind of a task."""
    grains: PaidGrains
    tokens: Count = 0
    """Output tokens of the paid unit; 0 for other payments."""

    @property
    def day(self) -> str:
        """The UTC day."""
        return _day(self.at_ms)


@dataclass(frozen=True, slots=True)
class EarnedSum:
    """The payments of one device, service or day."""

    name: str
    payments: int
    grains: int
    tokens: int = 0
    """The tokens of the paid units."""
    token_grains: int = 0
    """The grains paid for those units."""
    losses: int = 0
    lost: int = 0
    """Losses of device bonds, in grains."""

    @property
    def per_thousand(self) -> int | None:
        """Grains per thousand output tokens, rounded down; None without paid tokens."""
        return self.token_grains * 1_000 // self.tokens if self.tokens else None


@dataclass(frozen=True, slots=True)
class LostPart:
    """A loss of a device's bond."""

    at_ms: Time
    """The time at which it was noted, in milliseconds since 1970."""
    name: str
    """The key of the loss: its unit and block, or its device and number."""
    device: str
    grains: PaidGrains
    fault: str
    """`lied`, `missed` or `declined`; `unknown` if the chain no longer has the fault."""
    block: Count = 0
    case: str = ""
    """The case that found the fault; empty for a missed race."""
    appealable_until: Count = 0
    """The last block in which the verdict could be appealed; 0 without an appeal."""
    until_ms: Time = 0
    """The approximate time of that block."""

    @property
    def day(self) -> str:
        """The UTC day."""
        return _day(self.at_ms)

    @property
    def until_text(self) -> str:
        """The deadline's time to the minute, UTC; empty without a deadline."""
        return utc_text(self.until_ms) if self.until_ms else ""


class LossBook:
    """The writer of a file in a base path. A full disk loses the line, not the work."""

    def __init__(self, path: Path) -> None:
        """The file is opened at the first note."""
        self.path = path

    def note(self, part: LostPart) -> None:
        """Write a loss. Readers count a duplicate once."""
        _append(self.path, asdict(part))


class EarningsBook:
    """The writer of a file in a base path. A full disk loses the line, not the work."""

    def __init__(self, path: Path, clock: Callable[[], int] = time.time_ns) -> None:
        """`clock` gives nanoseconds since 1970."""
        self._path = path
        self._clock = clock

    def note(
        self, kind: str, name: bytes, number: int, *, device: bytes, service: str, grains: int, tokens: int = 0
    ) -> None:
        """Write a payment for a unit, a task or a case. `device` is empty if no own device earned it."""
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
        _append(self._path, line)


def payments(path: Path) -> Iterator[EarnedPayment]:
    """Yield all payments once, in order. An invalid line, such as a torn one, is skipped."""
    return _lines(path, EarnedPayment)


def losses(path: Path) -> Iterator[LostPart]:
    """Yield all losses, in the order of `payments`."""
    return _lines(path, LostPart)


def _append(path: Path, line: dict[str, Any]) -> None:
    try:
        with open(path, "a", encoding="utf-8", opener=own_opener) as file:
            file.write(json.dumps(line) + "\n")
    except OSError as error:
        LOG.warning("%d grains cannot be noted in %s: %s", line["grains"], path, error)


def _lines(path: Path, kind: type[BookLine]) -> Iterator[BookLine]:
    seen, form = set[str](), TypeAdapter(kind)
    try:
        file = path.open(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    with file:
        # Bounded, since a damaged file may have no line ends.
        while line := file.readline(LINE_BYTES_MAX):
            with suppress(ValueError):
                found = form.validate_json(line)
                # A payment is written before the journal forgets it, so a crash in between writes it twice.
                if found.name not in seen:
                    seen.add(found.name)
                    yield found


def sums(found: Iterable[EarnedPayment], by: By, lost: Iterable[LostPart] = ()) -> list[EarnedSum]:
    """Sum payments and losses, by ascending name. Losses have no service."""
    totals: dict[str, EarnedSum] = {}
    for payment in found:
        name = {By.DEVICE: payment.device, By.SERVICE: payment.service, By.DAY: payment.day}[by]
        before = totals.get(name, EarnedSum(name, 0, 0))
        totals[name] = EarnedSum(
            name,
            before.payments + 1,
            before.grains + payment.grains,
            before.tokens + payment.tokens,
            # Payments without tokens, such as a task's, would distort the price of a token.
            before.token_grains + (payment.grains if payment.tokens else 0),
        )
    for part in lost:
        name = {By.DEVICE: part.device, By.SERVICE: LOST_SERVICE, By.DAY: part.day}[by]
        before = totals.get(name, EarnedSum(name, 0, 0))
        totals[name] = replace(before, losses=before.losses + 1, lost=before.lost + part.grains)
    return [totals[name] for name in sorted(totals)]


def as_csv(found: Iterable[EarnedSum], by: By) -> str:
    """Return CSV for a spreadsheet: a header, then a line for each sum."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((by.value, "payments", "grains", "tokens", "grains_per_thousand", "losses", "lost_grains"))
    writer.writerows(
        (each.name, each.payments, each.grains, each.tokens, each.per_thousand, each.losses, each.lost)
        for each in found
    )
    return text.getvalue()


def losses_as_csv(found: Iterable[LostPart]) -> str:
    """Return CSV for a spreadsheet: a header, then a line for each loss."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(LOSS_COLUMNS)
    writer.writerows(loss_row(each).values() for each in found)
    return text.getvalue()


def loss_row(part: LostPart) -> dict[str, Any]:
    """Return a loss for display: times in UTC, the amount in grains."""
    values = (
        utc_text(part.at_ms), part.device, part.fault, part.grains, part.block, part.case,
        part.appealable_until, part.until_text,
    )  # fmt: skip
    return dict(zip(LOSS_COLUMNS, values, strict=True))


def utc_text(at_ms: int) -> str:
    """Format a time to the minute."""
    return f"{datetime.fromtimestamp(at_ms // 1_000, UTC):%Y-%m-%d %H:%M} UTC"


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms // 1_000, UTC).date().isoformat()
