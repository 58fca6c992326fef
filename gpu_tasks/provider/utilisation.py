"""The devices' use of their time, in a folder of the base path: a small file for each UTC day.

Invariants:

* A day's file is replaced as a whole every few seconds, so a killed daemon loses a few seconds.
* The newest `DAYS_KEPT` days are kept.
* An invalid file is ignored.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from durable.folders import make_folder
from gpu_tasks.provider.earnings import EarnedPayment
from gpu_tasks.provider.execution.device_times import Activity, Present, Spent
from wallet.private_file import own_opener

LOG = logging.getLogger("ogpu.provider")
UTILISATION_FOLDER = "utilisation"
DAYS_KEPT = 400
FILE_BYTES_MAX = 256 * 1024
"""The most bytes of a day's file. 64 devices with every state take a fourth of it."""
UsedNumber = Annotated[int, Field(strict=True, ge=0, lt=1 << 53)]
COMPUTING = frozenset(activity.value for activity in Activity)
"""The names of working states. A device is idle in all others."""
MS_PER_HOUR = 3_600_000


class UsedBy(Enum):
    """The grouping of times."""

    DEVICE = "device"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class DeviceDay:
    """The time of a device on one day."""

    day: str
    device: str
    ms: Mapping[str, int]
    """Milliseconds by state: activities and idle reasons."""
    tokens: int
    """Output tokens of its completed units."""


@dataclass(frozen=True, slots=True)
class PresentNote:
    """The last state of a device that its daemon wrote."""

    state: str
    words: str
    since_ms: UsedNumber
    """Milliseconds since 1970, as is the next field."""
    at_ms: UsedNumber


@dataclass(slots=True)
class _Used:
    ms: dict[str, UsedNumber] = field(default_factory=dict)
    tokens: UsedNumber = 0
    now: PresentNote | None = None


_DAY = TypeAdapter(dict[str, _Used])


@dataclass(frozen=True, slots=True)
class UsedSum:
    """The time of a device or a day, with its earnings."""

    name: str
    ms: Mapping[str, int] = field(default_factory=dict)
    tokens: int = 0
    grains: int = 0

    @property
    def up_ms(self) -> int:
        """The running time of the daemon. A day's sum covers all devices."""
        return sum(self.ms.values())

    @property
    def computing_ms(self) -> int:
        """The time of computing."""
        return sum(state_ms for activity_name, state_ms in self.ms.items() if activity_name in COMPUTING)

    @property
    def tokens_per_second(self) -> int | None:
        """Output tokens per second of work on units, rounded down; None without such work."""
        units_ms = self.ms.get(Activity.UNITS.value, 0)
        return self.tokens * 1_000 // units_ms if units_ms else None

    @property
    def grains_per_hour(self) -> int | None:
        """Earnings per hour of the daemon's running time; None without any."""
        return self.grains * MS_PER_HOUR // self.up_ms if self.up_ms else None


class UtilisationBook:
    """The writer of a base path's days. A full disk loses the record, not the work."""

    def __init__(self, book_folder: Path, clock: Callable[[], int] = time.time_ns) -> None:
        """Continue the present day's file. `clock` gives nanoseconds since 1970."""
        self._folder = book_folder
        self._clock = clock
        self._utc_day = ""
        self._used_devices: defaultdict[str, _Used] = defaultdict(_Used)
        self._is_failing = False

    def add(self, spent: Mapping[bytes, Spent], present: Mapping[bytes, Present]) -> None:
        """Add the devices' times since the last call, and their present states."""
        at_ms = self._clock() // 1_000_000
        utc_day = datetime.fromtimestamp(at_ms // 1_000, UTC).date().isoformat()
        if utc_day != self._utc_day:
            self._begin_day(utc_day)
        for device_id, device_spent in spent.items():
            used_device = self._used_devices[f"0x{device_id.hex()}"]
            for activity, state_ms in device_spent.ms.items():
                used_device.ms[activity.value] = used_device.ms.get(activity.value, 0) + state_ms
            used_device.tokens += device_spent.tokens
        # A device that is no longer served has no present state.
        for used_device in self._used_devices.values():
            used_device.now = None
        for device_id, present_state in present.items():
            present_note = PresentNote(
                present_state.state.value, present_state.words, max(0, at_ms - present_state.ms), at_ms
            )
            self._used_devices[f"0x{device_id.hex()}"].now = present_note
        self._write_day()

    def _begin_day(self, utc_day: str) -> None:
        """Read an earlier daemon's file of the day, and delete days that are too old."""
        self._utc_day = utc_day
        self._used_devices = defaultdict(_Used, _devices_of_file(self._folder / f"{utc_day}.json"))
        for day_path in _day_files(self._folder)[: -DAYS_KEPT + 1]:
            with suppress(OSError):  # the next day tries again
                day_path.unlink()

    def _write_day(self) -> None:
        day_path = self._folder / f"{self._utc_day}.json"
        try:
            make_folder(self._folder)
            draft_path = day_path.with_suffix(".new")
            with open(draft_path, "wb", opener=own_opener) as open_file:
                open_file.write(_DAY.dump_json(self._used_devices))
            draft_path.replace(day_path)  # not synced: a power cut loses seconds of a measurement
        except OSError as error:
            # One warning for each failure of the disk, not one every few seconds.
            if not self._is_failing:
                LOG.warning("the devices' use of time cannot be written: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False


def device_days(book_folder: Path) -> Iterator[DeviceDay]:
    """Yield the kept times by day and device."""
    for day_path in _day_files(book_folder):
        for device_name, used_device in _devices_of_file(day_path).items():
            yield DeviceDay(day_path.stem, device_name, used_device.ms, used_device.tokens)


def present_notes(book_folder: Path) -> dict[str, PresentNote]:
    """Return each device's state in the last file, by name."""
    day_files = _day_files(book_folder)
    return {
        device_name: used_device.now
        for device_name, used_device in (_devices_of_file(day_files[-1]) if day_files else {}).items()
        if used_device.now is not None
    }


def used_sums(days: Iterable[DeviceDay], payments: Iterable[EarnedPayment], grouping: UsedBy) -> list[UsedSum]:
    """Sum times by ascending name, with the payments of the same days.

    By device, only payments for the device's own work count. The fee of a check or a vote belongs to the stash.
    """
    kept_days = list(days)
    measured = {(device_day.day, device_day.device) for device_day in kept_days} | {
        (device_day.day, "") for device_day in kept_days
    }
    ms_by_group: dict[str, Counter[str]] = {}
    tokens_by_group: Counter[str] = Counter()
    grains_by_group: Counter[str] = Counter()
    for device_day in kept_days:
        group_name = device_day.device if grouping is UsedBy.DEVICE else device_day.day
        ms_by_group.setdefault(group_name, Counter()).update(device_day.ms)
        tokens_by_group[group_name] += device_day.tokens
    for payment in payments:
        if grouping is UsedBy.DEVICE and (payment.day, payment.device) in measured:
            grains_by_group[payment.device] += payment.grains
        elif grouping is UsedBy.DAY and (payment.day, "") in measured:
            grains_by_group[payment.day] += payment.grains
    return [
        UsedSum(group_name, dict(ms_by_group[group_name]), tokens_by_group[group_name], grains_by_group[group_name])
        for group_name in sorted(ms_by_group)
    ]


def _day_files(book_folder: Path) -> list[Path]:
    """Return the files of days, the oldest first."""
    return sorted(day_path for day_path in book_folder.glob("*.json") if _is_day_name(day_path.stem))


def _is_day_name(day_text: str) -> bool:
    try:
        return date.fromisoformat(day_text).isoformat() == day_text
    except ValueError:
        return False


def _devices_of_file(day_path: Path) -> dict[str, _Used]:
    """Return a file's content by device; nothing for an invalid file."""
    try:
        with day_path.open("rb") as open_file:
            return _DAY.validate_json(open_file.read(FILE_BYTES_MAX))
    except (OSError, ValueError):
        return {}
