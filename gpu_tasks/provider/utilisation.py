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

from gpu_tasks.provider.earnings import EarnedPayment
from gpu_tasks.provider.execution.device_times import Activity, Present, Spent
from wallet.private_file import make_folder, own_opener

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
        return sum(ms for state, ms in self.ms.items() if state in COMPUTING)

    @property
    def tokens_per_second(self) -> int | None:
        """Output tokens per second of work on units, rounded down; None without such work."""
        ms = self.ms.get(Activity.UNITS.value, 0)
        return self.tokens * 1_000 // ms if ms else None

    @property
    def grains_per_hour(self) -> int | None:
        """Earnings per hour of the daemon's running time; None without any."""
        return self.grains * MS_PER_HOUR // self.up_ms if self.up_ms else None


class UtilisationBook:
    """The writer of a base path's days. A full disk loses the record, not the work."""

    def __init__(self, folder: Path, clock: Callable[[], int] = time.time_ns) -> None:
        """Continue the present day's file. `clock` gives nanoseconds since 1970."""
        self._folder = folder
        self._clock = clock
        self._day = ""
        self._used: defaultdict[str, _Used] = defaultdict(_Used)
        self._is_failing = False

    def add(self, spent: Mapping[bytes, Spent], present: Mapping[bytes, Present]) -> None:
        """Add the devices' times since the last call, and their present states."""
        at_ms = self._clock() // 1_000_000
        day = datetime.fromtimestamp(at_ms // 1_000, UTC).date().isoformat()
        if day != self._day:
            self._begin(day)
        for device, each in spent.items():
            used = self._used[f"0x{device.hex()}"]
            for state, ms in each.ms.items():
                used.ms[state.value] = used.ms.get(state.value, 0) + ms
            used.tokens += each.tokens
        # A device that is no longer served has no present state.
        for used in self._used.values():
            used.now = None
        for device, now in present.items():
            note = PresentNote(now.state.value, now.words, max(0, at_ms - now.ms), at_ms)
            self._used[f"0x{device.hex()}"].now = note
        self._write()

    def _begin(self, day: str) -> None:
        """Read an earlier daemon's file of the day, and delete days that are too old."""
        self._day = day
        self._used = defaultdict(_Used, _of_file(self._folder / f"{day}.json"))
        for path in _files(self._folder)[: -DAYS_KEPT + 1]:
            with suppress(OSError):  # the next day tries again
                path.unlink()

    def _write(self) -> None:
        path = self._folder / f"{self._day}.json"
        try:
            make_folder(self._folder)
            draft = path.with_suffix(".new")
            with open(draft, "wb", opener=own_opener) as file:
                file.write(_DAY.dump_json(self._used))
            draft.replace(path)  # not synced: a power cut loses seconds of a measurement
        except OSError as error:
            # One warning for each failure of the disk, not one every few seconds.
            if not self._is_failing:
                LOG.warning("the devices' use of time cannot be written: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False


def device_days(folder: Path) -> Iterator[DeviceDay]:
    """Yield the kept times by day and device."""
    for path in _files(folder):
        for name, used in _of_file(path).items():
            yield DeviceDay(path.stem, name, used.ms, used.tokens)


def present_notes(folder: Path) -> dict[str, PresentNote]:
    """Return each device's state in the last file, by name."""
    files = _files(folder)
    return {name: used.now for name, used in (_of_file(files[-1]) if files else {}).items() if used.now is not None}


def used_sums(days: Iterable[DeviceDay], payments: Iterable[EarnedPayment], by: UsedBy) -> list[UsedSum]:
    """Sum times by ascending name, with the payments of the same days.

    By device, only payments for the device's own work count. A judge's fee belongs to its stash.
    """
    kept = list(days)
    measured = {(each.day, each.device) for each in kept} | {(each.day, "") for each in kept}
    ms: dict[str, Counter[str]] = {}
    tokens: Counter[str] = Counter()
    grains: Counter[str] = Counter()
    for each in kept:
        name = each.device if by is UsedBy.DEVICE else each.day
        ms.setdefault(name, Counter()).update(each.ms)
        tokens[name] += each.tokens
    for paid in payments:
        if by is UsedBy.DEVICE and (paid.day, paid.device) in measured:
            grains[paid.device] += paid.grains
        elif by is UsedBy.DAY and (paid.day, "") in measured:
            grains[paid.day] += paid.grains
    return [UsedSum(name, dict(ms[name]), tokens[name], grains[name]) for name in sorted(ms)]


def _files(folder: Path) -> list[Path]:
    """Return the files of days, the oldest first."""
    return sorted(path for path in folder.glob("*.json") if _is_day(path.stem))


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _of_file(path: Path) -> dict[str, _Used]:
    """Return a file's content by device; nothing for an invalid file."""
    try:
        with path.open("rb") as file:
            return _DAY.validate_json(file.read(FILE_BYTES_MAX))
    except (OSError, ValueError):
        return {}
