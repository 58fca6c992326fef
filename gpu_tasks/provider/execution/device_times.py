"""Working and idle times of each device, with the kind of work or the reason for idleness.

Invariants:

* A device is in one state at a time, so its times add up to the time since it was added.
* Of several simultaneous computations, the first in the order of `Activity` counts.
* The idle reason is determined when a device stops, and after each change.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum


class Activity(Enum):
    """A device's work, including the start of the worker for it."""

    UNITS = "units"
    TASKS = "tasks"
    SESSIONS = "sessions"
    """Live workers answer beside the other work."""
    CHECKS = "checks"
    VOTES = "votes"
    ROLL_CALLS = "roll calls"
    STARTING = "starting"
    """A worker starts before any work needs it."""


class WhyIdle(Enum):
    """The reasons for an idle device, by the operator's possible action."""

    AWAY = "no node"
    INPUT = "input"
    CHAIN = "chain"
    HINDERED = "hindered"
    TASK = "task"
    DRAINING = "draining"
    PAUSED = "paused"
    BARRED = "barred"
    UNPROVEN = "unproven"
    NO_OFFER = "no offer"
    CLASS = "class"
    BOND = "bond"
    PRICE = "price"
    BETWEEN = "between units"
    UNMATCHED = "unmatched"
    TAKEN = "taken"
    NOT_ASKED = "not asked for"


TimedState = Activity | WhyIdle


@dataclass(frozen=True, slots=True)
class IdleNote:
    """The idle reason of a device, with a sentence about it."""

    why: WhyIdle
    words: str


NOTHING_SEEN = IdleNote(WhyIdle.AWAY, "no block seen yet")


@dataclass(slots=True)
class _Timed:
    state: TimedState
    words: str
    since: int
    """Start of the current state."""
    booked_to: int
    """The time up to which `spent` is complete."""
    at_work: Counter[Activity] = field(default_factory=Counter)
    spent: Counter[TimedState] = field(default_factory=Counter)
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Present:
    """The present state of a device: a sentence if it is idle, and its milliseconds in that state."""

    state: TimedState
    words: str
    ms: int


@dataclass(frozen=True, slots=True)
class Spent:
    """Milliseconds of a device by state, and the output tokens of units that it completed meanwhile."""

    ms: Mapping[TimedState, int]
    tokens: int = 0


class DeviceTimes:
    """The times of all devices. `clock` gives monotonic milliseconds."""

    def __init__(self, clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000) -> None:
        """No device is followed yet."""
        self._clock_ms = clock_ms
        self._devices: dict[bytes, _Timed] = {}
        self.why: Callable[[bytes], IdleNote] = lambda _: NOTHING_SEEN
        """The function that returns a device's idle reason. It is called after each possible change."""

    def add(self, device: bytes) -> None:
        """Start to follow a device."""
        now_ms, activity_note = self._clock_ms(), self.why(device)
        self._devices[device] = _Timed(activity_note.why, activity_note.words, now_ms, now_ms)

    @contextlib.contextmanager
    def at(self, device: bytes, activity: Activity) -> Iterator[None]:
        """Time a computation of a device. An unknown device is not timed."""
        timed_device = self._devices.get(device)
        if timed_device is None:
            yield
            return
        # A counter, not a flag: a roll call may overlap with work on the same device.
        timed_device.at_work[activity] += 1
        self._observe(device, timed_device)
        try:
            yield
        finally:
            timed_device.at_work[activity] -= 1
            self._observe(device, timed_device)

    def is_idle(self, device: bytes) -> bool:
        """Return True if a followed device is idle."""
        timed_device = self._devices.get(device)
        return timed_device is not None and not timed_device.at_work.total()

    def note_tokens(self, device: bytes, token_count: int) -> None:
        """Count the output tokens of a completed unit."""
        if device in self._devices:
            self._devices[device].tokens += token_count

    def look(self) -> None:
        """Update the idle reasons after a possible change."""
        for device, timed_device in self._devices.items():
            self._observe(device, timed_device)

    def present(self) -> dict[bytes, Present]:
        """Return the present state of each device."""
        now_ms = self._clock_ms()
        return {
            device: Present(activity.state, activity.words, now_ms - activity.since)
            for device, activity in self._devices.items()
        }

    def take(self) -> dict[bytes, Spent]:
        """Return the times of each device since the last call."""
        now_ms, spent_times = self._clock_ms(), {}
        for device, timed_device in self._devices.items():
            _add_elapsed(timed_device, now_ms)
            spent_times[device] = Spent(dict(timed_device.spent), timed_device.tokens)
            timed_device.spent, timed_device.tokens = Counter(), 0
        return spent_times

    def _observe(self, device: bytes, timed_device: _Timed) -> None:
        """Count the time in the previous state, and enter the present one."""
        # Enum order is the priority, so overlapping work is counted once.
        activity = next((each for each in Activity if timed_device.at_work[each]), None)
        state: TimedState
        if activity is None:
            activity_note = self.why(device)
            state, activity_words = activity_note.why, activity_note.words
        else:
            state, activity_words = activity, ""
        now_ms = self._clock_ms()
        _add_elapsed(timed_device, now_ms)
        timed_device.words = activity_words
        # A new sentence about the same state does not restart its time.
        if state is not timed_device.state:
            timed_device.state, timed_device.since = state, now_ms


def _add_elapsed(device: _Timed, now_ms: int) -> None:
    if now_ms > device.booked_to:
        device.spent[device.state] += now_ms - device.booked_to
        device.booked_to = now_ms
