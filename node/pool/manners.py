"""The cost of refused messages of one kind, and the peers that this node ignores for it.

Invariant: refused messages of a peer take at most `REFUSED_SHARE` of this node's CPU, and those of all peers
`REFUSED_SHARE_OF_ALL`. Beyond its share the node drops a peer's messages unread. Honest peers check messages before
they pass them on. A peer is therefore blamed for forgeries when it sends more forgeries than good messages. Known
messages do not count as good: they cost a peer nothing, and would cover any number of forgeries.

Pure: the time is an argument, in seconds of any monotonic clock, and so is the CPU time of a refusal.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from node.p2p.meter import TokenBucket

REFUSED_SHARE = 0.02
REFUSED_BURST_SECONDS = 0.05
REFUSED_SHARE_OF_ALL = 0.1
REFUSED_BURST_OF_ALL_SECONDS = 0.25
FORGED_PER_BLAME = 8
JUDGED_MAX = 1_024  # verdicts after which both counts are halved
PEERS_REMEMBERED = 1_024
Blame = Callable[[str, str], None]
"""(peer, reason): the peer sent forgeries, which no honest peer sends."""


class _Record:
    """The record of one peer."""

    def __init__(self, now: float) -> None:
        self.bucket = TokenBucket(REFUSED_SHARE, REFUSED_BURST_SECONDS, now)
        self.forged = self.good = 0

    def count(self, *, forged_count: int = 0, good_count: int = 0) -> None:
        self.forged += forged_count
        self.good += good_count
        if self.forged + self.good > JUDGED_MAX:
            self.forged //= 2
            self.good //= 2


class Manners:
    """The records of all peers."""

    def __init__(self, now: float) -> None:
        self._records_by_peer: OrderedDict[str, _Record] = OrderedDict()
        self._all_bucket = TokenBucket(REFUSED_SHARE_OF_ALL, REFUSED_BURST_OF_ALL_SECONDS, now)

    def is_heard(self, peer: str, now: float) -> bool:
        """Return whether the node reads a peer's messages."""
        record = self._records_by_peer.get(peer)
        if record is None:
            return True
        remaining_tokens = record.bucket.available(now)
        # Many peers within their shares could together use up everything. Then the node ignores all peers that used
        # some.
        return remaining_tokens > 0 and (
            self._all_bucket.available(now) > 0 or remaining_tokens >= REFUSED_BURST_SECONDS
        )

    def on_admitted(self, peer: str, now: float) -> None:
        """Count a good message."""
        self._record_of(peer, now).count(good_count=1)

    def on_refused(self, peer: str, spent_seconds: float, now: float, *, is_forged: bool) -> bool:
        """Count a refused message that took `spent_seconds` of CPU; return True if the peer is to be blamed for it."""
        record = self._record_of(peer, now)
        record.count(forged_count=int(is_forged))
        record.bucket.spend(spent_seconds, now)
        self._all_bucket.spend(spent_seconds, now)
        return is_forged and record.forged > record.good and record.forged % FORGED_PER_BLAME == 0

    def _record_of(self, peer: str, now: float) -> _Record:
        record = self._records_by_peer.get(peer)
        if record is None:
            record = self._records_by_peer[peer] = _Record(now)
            if len(self._records_by_peer) > PEERS_REMEMBERED:  # peer ids are free, so new ones must not fill memory
                self._records_by_peer.popitem(last=False)
        self._records_by_peer.move_to_end(peer)
        return record
