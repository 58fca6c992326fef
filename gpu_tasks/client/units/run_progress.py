"""The progress of a run of a file, in whole numbers. Unknown figures are left out."""

from __future__ import annotations

from dataclasses import dataclass

ENDED_LEAST = 2
"""Units that must end before a forecast: one shows the time of a unit, but not how many run at once."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The progress of a run at one moment."""

    requests: int
    """All requests, posted or not."""
    answered: int
    failed: int
    """Failed requests, given-up ones included."""
    tokens: int
    """Output tokens of the answers so far."""
    units_ended: int
    began_at: int
    """Unix seconds of the moment from which the counts grow, also after a continuation."""
    done_before: int
    """Requests that had ended by then."""
    now: int
    foretold: int | None = None
    """The forecast seconds from `began_at`, before anything had ended."""
    standing: str = ""
    """The state of the open units."""
    given_up: int = 0
    """Requests without an answer because the run was cancelled."""

    @property
    def done(self) -> int:
        """The number of ended requests."""
        return self.answered + self.failed

    @property
    def permille(self) -> int:
        """Ended requests in thousandths, rounded down: 1000 only when all have ended."""
        return 1000 * self.done // self.requests if self.requests else 1000

    @property
    def seconds_left(self) -> int | None:
        """The remaining seconds by the rate so far, rounded up, or by the forecast; None without either."""
        left, lately, seconds = self.requests - self.done, self.done - self.done_before, self.now - self.began_at
        if left <= 0:
            return 0
        if lately <= 0 or seconds <= 0 or self.units_ended < ENDED_LEAST:
            return None if self.foretold is None or seconds >= self.foretold else self.foretold - seconds
        return -(-left * seconds // lately)

    def sentence(self, unit: str) -> str:
        """Return a line such as `1,200 of 5,000 done (24 %), 3 failed, 38,400 tokens; about 12 minutes left`."""
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
        """Return the forecast end, or the reason why there is none."""
        if self.seconds_left is not None:
            return f"{_rough(self.seconds_left)} left"
        over = None if self.foretold is None else self.now - self.began_at - self.foretold
        if over is not None and over >= 0:
            return f"{_rough(over)} over the forecast; a new forecast follows after two units"
        return "too early for a forecast: two units must end first"


def _rough(seconds: int) -> str:
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= 2 * size or (name == "minute" and seconds >= size):
            count = -(-seconds // size)
            return f"about {count:,} {name}{'' if count == 1 else 's'}"
    return "less than a minute"
