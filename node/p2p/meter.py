"""Token buckets, the only form of rate limit in this package, and the rates between two peers.

Pure: the time is an argument, in seconds of any monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Final

import trio

BULK_SHARE: Final = 0.5
"""The share of a peer's allowance that this node uses for gossip and sync; the rest stays free for consensus."""


PEERS_MAX = 1_024


# The clock by which peers pay for CPU: seconds in which this process used a core, or left it idle.
# Invariant: while the process is busy, the clock advances only as fast as the process gets CPU. A share of its seconds
# is therefore a share of the CPU that the process really has, also on shared cores. With shares of wall time, strangers
# got all of a node's CPU if the node had only a fifth of a core.
Seconds = Callable[[], float]


class CoreTime(trio.abc.Instrument):
    """The clock of the thread that created it: install it in that thread's trio run."""

    def __init__(self, seconds: Seconds = thread_time, wall_seconds: Seconds = perf_counter) -> None:
        self._cpu_seconds = seconds
        self._wall_seconds = wall_seconds
        self._idle_seconds = 0.0
        self._idle_since = 0.0

    def seconds(self) -> float:
        """Return the thread's CPU time plus its idle time."""
        return self._cpu_seconds() + self._idle_seconds

    def before_io_wait(self, timeout: float) -> None:
        """Begin an idle time of at most `timeout` seconds, unless something arrives."""
        del timeout
        self._idle_since = self._wall_seconds()

    def after_io_wait(self, timeout: float) -> None:
        """End an idle time; a `timeout` of 0 means that trio only polled, without idle time."""
        if timeout > 0:
            self._idle_seconds += self._wall_seconds() - self._idle_since


class PeerRates:
    """A token bucket for each of a bounded number of peers."""

    def __init__(self, per_second: float, burst_max: float) -> None:
        self._per_second = per_second
        self._burst_tokens = burst_max
        self._token_buckets: dict[bytes, TokenBucket] = {}

    def may(self, peer_id: bytes, now_ms: int, amount: float = 1) -> bool:
        """Return whether a peer may have `amount` more; if so, count it."""
        now = now_ms / 1_000
        bucket = self._token_buckets.pop(peer_id, None) or TokenBucket(self._per_second, self._burst_tokens, now)
        self._token_buckets[peer_id] = bucket
        # The peer that was quiet longest leaves, so active ones keep their debts.
        if len(self._token_buckets) > PEERS_MAX:
            self._token_buckets.pop(next(iter(self._token_buckets)))
        if bucket.available(now) < amount:
            return False
        bucket.spend(amount, now)
        return True


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The most that one peer may send before this node pauses reading; this node sends less."""

    bytes_per_second: float = 16 * 1024 * 1024
    burst_bytes: float = 32 * 1024 * 1024
    messages_per_second: float = 20_000
    burst_messages: float = 100_000
    consensus_per_second: float = 400
    """The rate of consensus and control messages. A healthy peer in a full mesh sends about 30 in a slot of a second.
    These are 10 queries and 10 answers, two votes, a proposal, two certificates, a block, a status, and a few pings. In
    a sparse mesh it also relays two ballots of each of 128 members, which makes about 300."""
    consensus_burst: float = 1_600
    """Four seconds' worth: the backlog of a peer that was slow."""


class TokenBucket:
    """A token bucket: `rate_per_second` tokens flow in, and it holds at most `burst_tokens`.

    A spend may leave a negative balance, and the caller then waits until the inflow has paid it back. So a message
    larger than the bucket is delayed, not refused.
    """

    def __init__(self, rate_per_second: float, burst_tokens: float, now: float) -> None:
        if rate_per_second <= 0 or burst_tokens <= 0:
            raise ValueError("rate and burst are positive")
        self._rate_per_second = rate_per_second
        self._burst_tokens = burst_tokens
        self._tokens = burst_tokens
        self._updated_at = now

    def available(self, now: float) -> float:
        """Return the balance of the bucket at `now`, which a large spend makes negative for a time."""
        self._tokens = min(self._burst_tokens, self._tokens + max(0.0, now - self._updated_at) * self._rate_per_second)
        self._updated_at = max(self._updated_at, now)
        return self._tokens

    def wait(self, now: float) -> float:
        """Return the seconds until the balance is no longer negative."""
        return max(0.0, -self.available(now) / self._rate_per_second)

    def spend(self, amount: float, now: float) -> float:
        """Take `amount` tokens, and return the seconds until the balance is no longer negative."""
        self._tokens = self.available(now) - amount
        return max(0.0, -self._tokens / self._rate_per_second)


class RateMeter:
    """The bytes and messages of one peer against `share` of the limits."""

    def __init__(self, rates: RateLimits, now: float, share: float = 1.0) -> None:
        self._bytes_bucket = TokenBucket(rates.bytes_per_second * share, rates.burst_bytes * share, now)
        self._messages_bucket = TokenBucket(rates.messages_per_second * share, rates.burst_messages * share, now)
        self._consensus_bucket = TokenBucket(rates.consensus_per_second, rates.consensus_burst, now)

    def is_in_debt(self, now: float) -> bool:
        """Return whether nothing more should pass at the moment."""
        return self._bytes_bucket.available(now) <= 0 or self._messages_bucket.available(now) <= 0

    def spend(self, size_bytes: int, message_count: int, now: float) -> float:
        """Count bytes and messages; return the seconds until the debt is paid."""
        return max(self._bytes_bucket.spend(size_bytes, now), self._messages_bucket.spend(message_count, now))

    def spend_consensus(self, message_count: int, now: float) -> float:
        """Count consensus and control messages; return the seconds until their debt is paid."""
        return self._consensus_bucket.spend(message_count, now)
