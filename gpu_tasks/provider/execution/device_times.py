"""How long each device did what: computed, for what, or stood still, and why.

Always: a device is in one state at a time, so its times add up to the time since it was taken into use; of several
things that it computes at once the first of `Activity` counts; why it stands still is looked at when it stops, and
whenever something has changed.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum


class Activity(Enum):
    """What a device computes, the start of a worker that this needs included."""

    UNITS = "units"
    TASKS = "tasks"
    AUDITS = "audits"
    JUDGING = "judging"
    ROLL_CALLS = "roll calls"
    STARTING = "starting"
    """A worker is made ready before anything needs it."""


class WhyIdle(Enum):
    """Why a device computes nothing, as its operator may act on it."""

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
    """Why a device stands still, and the same as a sentence about it."""

    why: WhyIdle
    words: str


NOTHING_SEEN = IdleNote(WhyIdle.AWAY, "no block was seen yet")


@dataclass(slots=True)
class _Timed:
    state: TimedState
    words: str
    since: int
    """When it came into this state."""
    booked_to: int
    """Up to when its time is in `spent`."""
    at_work: Counter[Activity] = field(default_factory=Counter)
    spent: Counter[TimedState] = field(default_factory=Counter)
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Present:
    """What a device is at, as a sentence where it stands still, and for how many milliseconds."""

    state: TimedState
    words: str
    ms: int


@dataclass(frozen=True, slots=True)
class Spent:
    """Milliseconds of a device by what it was at, and the output tokens of units that it was done with meanwhile."""

    ms: Mapping[TimedState, int]
    tokens: int = 0


class DeviceTimes:
    """Follows all devices. `clock` gives milliseconds of a clock that only goes forward."""

    def __init__(self, clock: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000) -> None:
        """No device yet."""
        self._clock = clock
        self._devices: dict[bytes, _Timed] = {}
        self.why: Callable[[bytes], IdleNote] = lambda _: NOTHING_SEEN
        """Why a device of which nothing is computed stands still; asked whenever that may have changed."""

    def add(self, device: bytes) -> None:
        """A device is taken into use: its time counts from now on."""
        now, note = self._clock(), self.why(device)
        self._devices[device] = _Timed(note.why, note.words, now, now)

    @contextlib.contextmanager
    def at(self, device: bytes, activity: Activity) -> Iterator[None]:
        """A device computes; one that is not followed is not timed."""
        timed = self._devices.get(device)
        if timed is None:
            yield
            return
        timed.at_work[activity] += 1
        self._look_at(device, timed)
        try:
            yield
        finally:
            timed.at_work[activity] -= 1
            self._look_at(device, timed)

    def is_idle(self, device: bytes) -> bool:
        """Whether it stands still, as far as it is followed."""
        timed = self._devices.get(device)
        return timed is not None and not timed.at_work.total()

    def note_tokens(self, device: bytes, tokens: int) -> None:
        """A unit is done, with so many output tokens."""
        if device in self._devices:
            self._devices[device].tokens += tokens

    def look(self) -> None:
        """Something may have changed: see anew why devices stand still."""
        for device, timed in self._devices.items():
            self._look_at(device, timed)

    def present(self) -> dict[bytes, Present]:
        """What each device is at."""
        now = self._clock()
        return {device: Present(each.state, each.words, now - each.since) for device, each in self._devices.items()}

    def take(self) -> dict[bytes, Spent]:
        """What each device did since this was asked last."""
        now, taken = self._clock(), {}
        for device, timed in self._devices.items():
            _book(timed, now)
            taken[device] = Spent(dict(timed.spent), timed.tokens)
            timed.spent, timed.tokens = Counter(), 0
        return taken

    def _look_at(self, device: bytes, timed: _Timed) -> None:
        """Book what passed in the state before, and enter that of now."""
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
        if state is not timed.state:
            timed.state, timed.since = state, now


def _book(timed: _Timed, now: int) -> None:
    if now > timed.booked_to:
        timed.spent[timed.state] += now - timed.booked_to
        timed.booked_to = now
