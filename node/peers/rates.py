"""How often each peer may make this node do something dear."""

from __future__ import annotations

from node.p2p.meter import TokenBucket

PEERS_MAX = 1_024


class PeerRates:
    """A token bucket for each of a bounded number of peers."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._buckets: dict[bytes, TokenBucket] = {}

    def may(self, peer: bytes, now_ms: int, amount: float = 1) -> bool:
        """Tell whether it may once more now, or have so much; if so, count it."""
        now = now_ms / 1_000
        bucket = self._buckets.pop(peer, None) or TokenBucket(self._per_second, self._burst, now)
        self._buckets[peer] = bucket
        if len(self._buckets) > PEERS_MAX:
            self._buckets.pop(next(iter(self._buckets)))
        if bucket.available(now) < amount:
            return False
        bucket.spend(amount, now)
        return True
