"""Requests for missing blocks: one peer after another, until the block arrives.

Invariants:

* A block that the gadget waits for is always requested, even if the list is full.
* Members and strangers each have a part of the list. One peer fills at most `fetches_per_peer_max` of a part, and less
  if other peers have less.
* Each block is requested at most `fetch_attempts_max` times. An invalid block is not requested while it is remembered.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from consensus.events import Fetch
from consensus.parameters import Parameters

REJECTED_MAX = 1024


@dataclass(slots=True)
class _Wanted:
    origin: bytes  # the peer that mentioned the block
    peer: bytes  # the peer asked last
    rank: bool | None  # mentioned by a voter, by a stranger, or (None) needed by the gadget
    attempts: int
    due_ms: int


class Fetches:
    """The wanted blocks, and the peer last asked for each."""

    def __init__(self, parameters: Parameters) -> None:
        """Start with no wanted block."""
        self._parameters = parameters
        self._wanted: dict[bytes, _Wanted] = {}
        self._rejected: dict[bytes, None] = {}

    def want(self, block_id: bytes, peer: bytes, now_ms: int, *, is_voter: bool) -> None:
        """Request a block from `peer`, which mentioned it, after a moment in which the block may arrive unasked."""
        if block_id in self._wanted or block_id in self._rejected:
            return
        counts_by_origin = Counter(
            wanted_block.origin for wanted_block in self._wanted.values() if wanted_block.rank == is_voter
        )
        # A peer may name ids that no block has: its mentions fill only its share of the list.
        if counts_by_origin[peer] >= self._parameters.fetches_per_peer_max:
            return
        fetches_max = self._parameters.fetches_by_voters_max if is_voter else self._parameters.fetches_by_strangers_max
        if counts_by_origin.total() >= fetches_max and not self._make_room(counts_by_origin, peer):
            return
        self._add(block_id, peer, now_ms, is_voter)

    def need(self, block_id: bytes, now_ms: int) -> None:
        """Request a block from any peer: a leader or more than two thirds of the stake vouch for it.

        The gadget needs only a few such blocks at a time, so the list needs no limit here.
        """
        if block_id not in self._wanted and block_id not in self._rejected:
            self._add(block_id, b"", now_ms, None)

    def is_wanted(self, block_id: bytes) -> bool:
        """Return True if the block is being requested."""
        return block_id in self._wanted

    def _make_room(self, counts_by_origin: Counter[bytes], peer: bytes) -> bool:
        """Drop the newest entry of the peer with most entries, if that leaves it at least as many as the newcomer."""
        ((largest, origin_count),) = counts_by_origin.most_common(1)
        if origin_count <= counts_by_origin[peer] + 1:
            return False
        newest_block = next(block_id for block_id in reversed(self._wanted) if self._wanted[block_id].origin == largest)
        del self._wanted[newest_block]
        return True

    def _add(self, block_id: bytes, origin: bytes, now_ms: int, rank: bool | None) -> None:
        # Usually the block is on its way already: its author sends it to every peer.
        due_ms = now_ms + self._parameters.fetch_grace_ms
        self._wanted[block_id] = _Wanted(origin, origin, rank, attempts=0, due_ms=due_ms)

    def settle(self, block_id: bytes) -> None:
        """Forget a block that arrived."""
        self._wanted.pop(block_id, None)

    def reject(self, block_id: bytes) -> None:
        """Forget an invalid block, and do not request it again."""
        self.settle(block_id)
        self._rejected[block_id] = None
        if len(self._rejected) > REJECTED_MAX:
            del self._rejected[next(iter(self._rejected))]

    def due(self, peers: Sequence[bytes], above_height: int, now_ms: int) -> list[Fetch]:
        """Return the requests to send now: first to the peer that mentioned the block, then to others in turn."""
        requests = []
        for block_id, wanted_block in list(self._wanted.items()):
            if now_ms < wanted_block.due_ms or not peers:
                continue
            if wanted_block.attempts >= self._parameters.fetch_attempts_max:
                del self._wanted[block_id]
                continue
            # A silent peer may stay silent: requests to a single peer stalled the prototype.
            if wanted_block.attempts > 0 or wanted_block.peer not in peers:
                peer_index = peers.index(wanted_block.peer) if wanted_block.peer in peers else -1
                wanted_block.peer = peers[(peer_index + 1) % len(peers)]
            wanted_block.attempts += 1
            wanted_block.due_ms = now_ms + self._parameters.fetch_retry_ms
            requests.append(Fetch(block_id, wanted_block.peer, above_height))
        return requests

    def deadline_ms(self) -> int | None:
        """Return the time of the next request in ms, None without a wanted block."""
        return min((wanted_block.due_ms for wanted_block in self._wanted.values()), default=None)
