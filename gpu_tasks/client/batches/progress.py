"""How far a run is, and when it may end: from counts and times that are given.

Always: whole numbers; and where nothing is known, nothing is said.
"""

from dataclasses import dataclass

ENDED_LEAST = 2
"""Units that must have ended before an end is foretold: one says how long a unit takes, and not how many go at once."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """A run at one moment."""

    requests: int
    """All that were posted or will be."""
    answered: int
    failed: int
    """Those that were given up among them."""
    tokens: int
    """Out, of the answers so far."""
    units_ended: int
    began_at: int
    """Unix seconds of the moment from which the counts grow, also where a run was taken up again."""
    done_before: int
    """Requests that had ended by then."""
    now: int
    foretold: int | None = None
    """Seconds from `began_at` that all of it was said to take, before anything had ended."""
    standing: str = ""
    """What the units that have not ended are at."""
    given_up: int = 0
    """Requests without an answer because the run was stopped."""

    @property
    def done(self) -> int:
        """The requests that have ended, one way or another."""
        return self.answered + self.failed

    @property
    def permille(self) -> int:
        """Thousandths of the requests that have ended, rounded down: 1000 only when all have."""
        return 1000 * self.done // self.requests if self.requests else 1000

    @property
    def tokens_an_hour(self) -> int | None:
        """None before a second has passed, and in a run taken up again: its earlier tokens are not told apart."""
        seconds = self.now - self.began_at
        return self.tokens * 3600 // seconds if seconds > 0 and not self.done_before else None

    @property
    def seconds_left(self) -> int | None:
        """What is left at the rate so far, rounded up, or of what was foretold; None while nothing is known."""
        left, lately, seconds = self.requests - self.done, self.done - self.done_before, self.now - self.began_at
        if left <= 0:
            return 0
        if lately <= 0 or seconds <= 0 or self.units_ended < ENDED_LEAST:
            return None if self.foretold is None or seconds >= self.foretold else self.foretold - seconds
        return -(-left * seconds // lately)

    def sentence(self, unit: str) -> str:
        """For people, such as `1,200 of 5,000 done (24 %), 3 failed, 38,400 tokens; about 12 minutes left`."""
        said = f"{self.done:,} of {self.requests:,} done ({self.permille // 10} %)"
        failed = self.failed - self.given_up
        said += f", {failed:,} failed" if failed else ""
        said += f", {self.given_up:,} given up" if self.given_up else ""
        said += f", {self.tokens:,} {unit}s" if self.tokens != 1 else f", 1 {unit}"
        if self.seconds_left == 0:
            return said
        said += f"; {self.standing}" if self.standing else ""
        return f"{said}; {self._end()}"

    def _end(self) -> str:
        """When it ends, or why nobody says."""
        if self.seconds_left is not None:
            return f"{_rough(self.seconds_left)} left"
        over = None if self.foretold is None else self.now - self.began_at - self.foretold
        if over is not None and over >= 0:
            return f"{_rough(over)} longer than was foretold; its end is told again once two units have ended"
        return "too early to say when it ends: two units have to end first"


def _rough(seconds: int) -> str:
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= 2 * size or (name == "minute" and seconds >= size):
            count = -(-seconds // size)
            return f"about {count:,} {name}{'' if count == 1 else 's'}"
    return "less than a minute"
