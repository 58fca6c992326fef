"""A token bucket: the one way in which this package limits rates.

Pure: the time is an argument, in seconds of any monotonic clock.
"""


class TokenBucket:
    """Lets `rate_per_second` tokens through on average and at most `burst` at once.

    A spend may overdraw the bucket; what is then owed is paid back by waiting, so that one large message passes at a
    delay instead of never.
    """

    def __init__(self, rate_per_second: float, burst: float, now: float) -> None:
        if rate_per_second <= 0 or burst <= 0:
            raise ValueError("rate and burst are positive")
        self._rate = rate_per_second
        self._burst = burst
        self._tokens = burst
        self._updated_at = now

    def available(self, now: float) -> float:
        """Tokens in the bucket at `now`; negative while a debt is being paid back."""
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._updated_at) * self._rate)
        self._updated_at = max(self._updated_at, now)
        return self._tokens

    def spend(self, amount: float, now: float) -> float:
        """Take `amount` tokens and return the seconds to wait until the bucket is out of debt (0 when it is)."""
        self._tokens = self.available(now) - amount
        return max(0.0, -self._tokens / self._rate)
