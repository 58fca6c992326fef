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

    def __init__(self, cpu: Seconds = thread_time, wall: Seconds = perf_counter) -> None:
        self._cpu = cpu
        self._wall = wall
        self._idle = 0.0
        self._idle_since = 0.0

    def seconds(self) -> float:
        """Return the thread's CPU time plus its idle time."""
        return self._cpu() + self._idle

    def before_io_wait(self, timeout: float) -> None:
        """Begin an idle time of at most `timeout` seconds, unless something arrives."""
        del timeout
        self._idle_since = self._wall()

    def after_io_wait(self, timeout: float) -> None:
        """End an idle time; a `timeout` of 0 means that trio only polled, without idle time."""
        if timeout > 0:
            self._idle += self._wall() - self._idle_since


class PeerRates:
    """A token bucket for each of a bounded number of peers."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._buckets: dict[bytes, TokenBucket] = {}

    def may(self, peer: bytes, now_ms: int, amount: float = 1) -> bool:
        """Return whether a peer may have `amount` more; if so, count it."""
        now = now_ms / 1_000
        bucket = self._buckets.pop(peer, None) or TokenBucket(self._per_second, self._burst, now)
        self._buckets[peer] = bucket
        # The peer that was quiet longest leaves, so active ones keep their debts.
        if len(self._buckets) > PEERS_MAX:
            self._buckets.pop(next(iter(self._buckets)))
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
    """A bucket that passes `rate_per_second` tokens on average and at most `burst` at once.

    A spend may overdraw the bucket, and waiting pays the debt back. A large message thus passes with a delay instead of
    never.
    """

    def __init__(self, rate_per_second: float, burst: float, now: float) -> None:
        if rate_per_second <= 0 or burst <= 0:
            raise ValueError("rate and burst are positive")
        self._rate = rate_per_second
        self._burst = burst
        self._tokens = burst
        self._updated_at = now

    def available(self, now: float) -> float:
        """Return the tokens in the bucket at `now`; negative while a debt is paid back."""
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._updated_at) * self._rate)
        self._updated_at = max(self._updated_at, now)
        return self._tokens

    def wait(self, now: float) -> float:
        """Return the seconds until the bucket is out of debt; 0 without debt."""
        return max(0.0, -self.available(now) / self._rate)

    def spend(self, amount: float, now: float) -> float:
        """Take `amount` tokens and return the seconds until the bucket is out of debt (0 without debt)."""
        self._tokens = self.available(now) - amount
        return max(0.0, -self._tokens / self._rate)


class RateMeter:
    """The bytes and messages of one peer against `share` of the limits."""

    def __init__(self, limits: RateLimits, now: float, share: float = 1.0) -> None:
        self._bytes = TokenBucket(limits.bytes_per_second * share, limits.burst_bytes * share, now)
        self._messages = TokenBucket(limits.messages_per_second * share, limits.burst_messages * share, now)
        self._consensus = TokenBucket(limits.consensus_per_second, limits.consensus_burst, now)

    def is_in_debt(self, now: float) -> bool:
        """Return whether nothing more should pass at the moment."""
        return self._bytes.available(now) <= 0 or self._messages.available(now) <= 0

    def spend(self, size: int, messages: int, now: float) -> float:
        """Count bytes and messages; return the seconds until the debt is paid."""
        return max(self._bytes.spend(size, now), self._messages.spend(messages, now))

    def spend_consensus(self, messages: int, now: float) -> float:
        """Count consensus and control messages; return the seconds until their debt is paid."""
        return self._consensus.spend(messages, now)
