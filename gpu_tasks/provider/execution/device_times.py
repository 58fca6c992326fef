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
    AUDITS = "audits"
    JUDGING = "judging"
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

    def __init__(self, clock: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000) -> None:
        """No device is followed yet."""
        self._clock = clock
        self._devices: dict[bytes, _Timed] = {}
        self.why: Callable[[bytes], IdleNote] = lambda _: NOTHING_SEEN
        """The function that returns a device's idle reason. It is called after each possible change."""

    def add(self, device: bytes) -> None:
        """Start to follow a device."""
        now, note = self._clock(), self.why(device)
        self._devices[device] = _Timed(note.why, note.words, now, now)

    @contextlib.contextmanager
    def at(self, device: bytes, activity: Activity) -> Iterator[None]:
        """Time a computation of a device. An unknown device is not timed."""
        timed = self._devices.get(device)
        if timed is None:
            yield
            return
        # A counter, not a flag: a roll call may overlap with work on the same device.
        timed.at_work[activity] += 1
        self._look_at(device, timed)
        try:
            yield
        finally:
            timed.at_work[activity] -= 1
            self._look_at(device, timed)

    def is_idle(self, device: bytes) -> bool:
        """Return True if a followed device is idle."""
        timed = self._devices.get(device)
        return timed is not None and not timed.at_work.total()

    def note_tokens(self, device: bytes, tokens: int) -> None:
        """Count the output tokens of a completed unit."""
        if device in self._devices:
            self._devices[device].tokens += tokens

    def look(self) -> None:
        """Update the idle reasons after a possible change."""
        for device, timed in self._devices.items():
            self._look_at(device, timed)

    def present(self) -> dict[bytes, Present]:
        """Return the present state of each device."""
        now = self._clock()
        return {device: Present(each.state, each.words, now - each.since) for device, each in self._devices.items()}

    def take(self) -> dict[bytes, Spent]:
        """Return the times of each device since the last call."""
        now, taken = self._clock(), {}
        for device, timed in self._devices.items():
            _book(timed, now)
            taken[device] = Spent(dict(timed.spent), timed.tokens)
            timed.spent, timed.tokens = Counter(), 0
        return taken

    def _look_at(self, device: bytes, timed: _Timed) -> None:
        """Count the time in the previous state, and enter the present one."""
        # Enum order is the priority, so overlapping work is counted once.
        activity = next((each for each in Activity if timed.at_work[each]), None)
        state: TimedState
        if activity is None:
            note = self.why(device)
            state, words = note.why, note.words
        else:
            state, words = activity, ""
        now = self._clock()
        _book(timed, now)
        timed.words = words
        # A new sentence about the same state does not restart its time.
        if state is not timed.state:
            timed.state, timed.since = state, now


def _book(timed: _Timed, now: int) -> None:
    if now > timed.booked_to:
        timed.spent[timed.state] += now - timed.booked_to
        timed.booked_to = now
