"""A provider's earnings and losses, one row each, in the journal of the base path.

Invariants:

* A payment is one commit with the end of its work, so none is lost and none counts twice.
* Amounts are in grains after fees.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter

from durable.database import Database
from gpu_tasks.provider.journal.schema import damaged, read_journal

AT_MS_MAX = 1 << 45
"""A thousand years after 1970."""
LOST_SERVICE = "lost bond"
NO_DEVICE = "none"
"""The device of a line about the stash: a fee or a loss of a check, a vote or a case."""
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
        return _utc_day(self.at_ms)


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
    """A loss of a device's bond, or of a stash that checked or voted."""

    at_ms: Time
    """The time at which it was noted, in milliseconds since 1970."""
    name: str
    """The key of the loss: its unit and block, or its device and number."""
    device: str
    """`none` for a loss of the stash."""
    grains: PaidGrains
    fault: str
    """`lied`, `missed`, `passed`, `check` or `vote`; `unknown` if the chain no longer has the fault."""
    block: Count = 0
    case: str = ""
    """The dispute that found the fault, if there was one."""
    appealable_until: Count = 0
    """The last block in which its decision could be appealed; 0 without an appeal."""
    until_ms: Time = 0
    """The approximate time of that block."""

    @property
    def day(self) -> str:
        """The UTC day."""
        return _utc_day(self.at_ms)

    @property
    def until_text(self) -> str:
        """The deadline's time to the minute, UTC; empty without a deadline."""
        return utc_text(self.until_ms) if self.until_ms else ""


_PAYMENT, _LOSS = TypeAdapter(EarnedPayment), TypeAdapter(LostPart)


class LossBook:
    """The losses in a journal's database."""

    def __init__(self, database: Database) -> None:
        """Nothing is read or written yet."""
        self._database = database

    def note(self, part: LostPart) -> None:
        """Write a loss, unless there is one of its name. Raise JournalError if it cannot be written."""
        self._database.execute(
            "INSERT INTO losses (name, line) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
            part.name,
            _LOSS.dump_json(part).decode(),
        )

    def read(self) -> list[LostPart]:
        """Return all losses, in order. Raise JournalError if one is damaged."""
        return _parsed(self._database, self._database.rows("SELECT line FROM losses ORDER BY rowid"), _LOSS)


class EarningsBook:
    """The payments in a journal's database."""

    def __init__(self, database: Database, clock: Callable[[], int] = time.time_ns) -> None:
        """`clock` gives nanoseconds since 1970. Nothing is read or written yet."""
        self._database = database
        self._clock = clock

    def note(
        self, kind: str, name: bytes, number: int, *, device: bytes, service: str, grains: int, tokens: int = 0
    ) -> None:
        """Write a payment for a unit, a task or a case, unless there is one of its name.

        `device` is empty if no own device earned it. Raise JournalError if it cannot be written.
        """
        if not grains:
            return
        payment = EarnedPayment(
            self._clock() // 1_000_000,
            f"{kind} 0x{name.hex()} {number}",
            f"0x{device.hex()}" if device else NO_DEVICE,
            service,
            grains,
            tokens,
        )
        self._database.execute(
            "INSERT INTO earnings (name, line) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
            payment.name,
            _PAYMENT.dump_json(payment).decode(),
        )

    def read(self) -> list[EarnedPayment]:
        """Return all payments, in order. Raise JournalError if one is damaged."""
        return _parsed(self._database, self._database.rows("SELECT line FROM earnings ORDER BY rowid"), _PAYMENT)


def payments(base_path: Path) -> list[EarnedPayment]:
    """Return all payments of a base path, in order. It raises the errors of `read_journal`."""
    return read_journal(base_path, lambda database: EarningsBook(database).read())


def losses(base_path: Path) -> list[LostPart]:
    """Return all losses of a base path, in order. It raises the errors of `read_journal`."""
    return read_journal(base_path, lambda database: LossBook(database).read())


def _parsed(database: Database, rows: Iterable[tuple[str]], adapter: TypeAdapter[BookLine]) -> list[BookLine]:
    try:
        return [adapter.validate_json(line) for (line,) in rows]
    except ValueError as error:
        raise damaged(database, "an amount of money") from error


def sums(
    received_payments: Iterable[EarnedPayment], grouping: By, bond_losses: Iterable[LostPart] = ()
) -> list[EarnedSum]:
    """Sum payments and losses, by ascending name. Losses have no service."""
    totals: dict[str, EarnedSum] = {}
    for payment in received_payments:
        group_name = {By.DEVICE: payment.device, By.SERVICE: payment.service, By.DAY: payment.day}[grouping]
        earlier_sum = totals.get(group_name, EarnedSum(group_name, 0, 0))
        totals[group_name] = EarnedSum(
            group_name,
            earlier_sum.payments + 1,
            earlier_sum.grains + payment.grains,
            earlier_sum.tokens + payment.tokens,
            # Payments without tokens, such as a task's, would distort the price of a token.
            earlier_sum.token_grains + (payment.grains if payment.tokens else 0),
        )
    for lost_part in bond_losses:
        group_name = {By.DEVICE: lost_part.device, By.SERVICE: LOST_SERVICE, By.DAY: lost_part.day}[grouping]
        earlier_sum = totals.get(group_name, EarnedSum(group_name, 0, 0))
        totals[group_name] = replace(
            earlier_sum, losses=earlier_sum.losses + 1, lost=earlier_sum.lost + lost_part.grains
        )
    return [totals[group_name] for group_name in sorted(totals)]


def as_csv(earned_sums: Iterable[EarnedSum], grouping: By) -> str:
    """Return CSV for a spreadsheet: a header, then a line for each sum."""
    csv_buffer = io.StringIO()
    csv_writer = csv.writer(csv_buffer, lineterminator="\n")
    csv_writer.writerow(
        (grouping.value, "payments", "grains", "tokens", "grains_per_thousand", "losses", "lost_grains")
    )
    csv_writer.writerows(
        (
            earned_sum.name,
            earned_sum.payments,
            earned_sum.grains,
            earned_sum.tokens,
            earned_sum.per_thousand,
            earned_sum.losses,
            earned_sum.lost,
        )
        for earned_sum in earned_sums
    )
    return csv_buffer.getvalue()


def losses_as_csv(lost_parts: Iterable[LostPart]) -> str:
    """Return CSV for a spreadsheet: a header, then a line for each loss."""
    csv_buffer = io.StringIO()
    csv_writer = csv.writer(csv_buffer, lineterminator="\n")
    csv_writer.writerow(LOSS_COLUMNS)
    csv_writer.writerows(loss_row(lost_part).values() for lost_part in lost_parts)
    return csv_buffer.getvalue()


def loss_row(lost_part: LostPart) -> dict[str, Any]:
    """Return a loss for display: times in UTC, the amount in grains."""
    row_values = (
        utc_text(lost_part.at_ms), lost_part.device, lost_part.fault, lost_part.grains, lost_part.block, lost_part.case,
        lost_part.appealable_until, lost_part.until_text,
    )  # fmt: skip
    return dict(zip(LOSS_COLUMNS, row_values, strict=True))


def utc_text(at_ms: int) -> str:
    """Format a time to the minute."""
    return f"{datetime.fromtimestamp(at_ms // 1_000, UTC):%Y-%m-%d %H:%M} UTC"


def _utc_day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms // 1_000, UTC).date().isoformat()
