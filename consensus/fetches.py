"""Blocks that this node lacks: asked from one peer after another until they come.

Always: what the gadget waits for is asked for at once, whatever else is wanted; the words of members and of strangers
have a part of the list each, of which one peer fills at most `fetches_per_peer_max`, and less where others have less;
each block is asked for at most `fetch_attempts_max` times, and an invalid block
is not asked for again while it is remembered.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from consensus.events import Fetch
from consensus.parameters import Parameters

REJECTED_MAX = 1024


@dataclass(slots=True)
class _Wanted:
    origin: bytes  # whose word it is that the block exists
    peer: bytes  # who was asked last
    rank: bool | None  # the word of a voter, of a stranger, or (None) what the gadget waits for
    attempts: int
    due_ms: int


class Fetches:
    """What is wanted and from whom it was last asked."""

    def __init__(self, parameters: Parameters) -> None:
        """Nothing wanted."""
        self._parameters = parameters
        self._wanted: dict[bytes, _Wanted] = {}
        self._rejected: dict[bytes, None] = {}

    def want(self, block: bytes, peer: bytes, now_ms: int, *, is_voter: bool) -> None:
        """Ask `peer`, which spoke of a block, for it; after a moment in which it may come by itself."""
        if block in self._wanted or block in self._rejected:
            return
        counts = Counter(wanted.origin for wanted in self._wanted.values() if wanted.rank == is_voter)
        # A peer may name ids that no block has: its word fills no more than its part of the list.
        if counts[peer] >= self._parameters.fetches_per_peer_max:
            return
        most = self._parameters.fetches_by_voters_max if is_voter else self._parameters.fetches_by_strangers_max
        if counts.total() >= most and not self._make_room(counts, peer):
            return
        self._add(block, peer, now_ms, is_voter)

    def need(self, block: bytes, now_ms: int) -> None:
        """Ask anybody for a block that more than two thirds of the stake vouch for, or a leader; a few at a time."""
        if block not in self._wanted and block not in self._rejected:
            self._add(block, b"", now_ms, None)

    def is_wanted(self, block: bytes) -> bool:
        """Whether a block is being asked for."""
        return block in self._wanted

    def _make_room(self, counts: Counter[bytes], peer: bytes) -> bool:
        """Drop the newest word of whoever has most of a full part, if that leaves it no less than the newcomer."""
        ((largest, count),) = counts.most_common(1)
        if count <= counts[peer] + 1:
            return False
        newest = next(block for block in reversed(self._wanted) if self._wanted[block].origin == largest)
        del self._wanted[newest]
        return True

    def _add(self, block: bytes, origin: bytes, now_ms: int, rank: bool | None) -> None:
        # Mostly the block is on its way already: its author sends it to everybody.
        due_ms = now_ms + self._parameters.fetch_grace_ms
        self._wanted[block] = _Wanted(origin, origin, rank, attempts=0, due_ms=due_ms)

    def settle(self, block: bytes) -> None:
        """The block came."""
        self._wanted.pop(block, None)

    def reject(self, block: bytes) -> None:
        """The block is invalid."""
        self.settle(block)
        self._rejected[block] = None
        if len(self._rejected) > REJECTED_MAX:
            del self._rejected[next(iter(self._rejected))]

    def due(self, peers: Sequence[bytes], above: int, now_ms: int) -> list[Fetch]:
        """Questions to ask now: first to the peer that spoke of the block, then to others in turn."""
        asked = []
        for block, wanted in list(self._wanted.items()):
            if now_ms < wanted.due_ms or not peers:
                continue
            if wanted.attempts >= self._parameters.fetch_attempts_max:
                del self._wanted[block]
                continue
            # Who did not answer may never: blocks asked from a single peer stalled the prototype.
            if wanted.attempts > 0 or wanted.peer not in peers:
                place = peers.index(wanted.peer) if wanted.peer in peers else -1
                wanted.peer = peers[(place + 1) % len(peers)]
            wanted.attempts += 1
            wanted.due_ms = now_ms + self._parameters.fetch_retry_ms
            asked.append(Fetch(block, wanted.peer, above))
        return asked

    def deadline_ms(self) -> int | None:
        """When something is due next."""
        return min((wanted.due_ms for wanted in self._wanted.values()), default=None)
