"""Who is connected: peers, the session keys that they proved, and which of these vote in this epoch.

Always: `voters` holds members of the epoch only, whatever keys strangers make for themselves; order is that of arrival.
"""

from consensus.validators import ValidatorSet


class Neighbours:
    """Connected peers of one node; `session` is its own key, None for an observer."""

    def __init__(self, session: bytes | None) -> None:
        """Nobody is connected; call `begin` next."""
        self._session = session
        self._keys: dict[bytes, bytes | None] = {}
        self._peers_by_key: dict[bytes, bytes] = {}
        self._order: tuple[bytes, ...] = ()
        self.voters: dict[bytes, bytes] = {}

    def __contains__(self, peer: bytes) -> bool:
        """Whether a peer is connected."""
        return peer in self._keys

    def begin(self, members: ValidatorSet) -> None:
        """Another set votes."""
        self._members = members
        self._count_voters()

    def connect(self, peer: bytes, key: bytes | None) -> None:
        """A peer is there; `key` is the session key that it proved, if any."""
        self._keys[peer] = key
        if key is not None and key != self._session:
            self._peers_by_key[key] = peer
        self._count_voters()

    def disconnect(self, peer: bytes) -> None:
        """A peer is gone."""
        key = self._keys.pop(peer, None)
        if key is not None and self._peers_by_key.get(key) == peer:
            del self._peers_by_key[key]
        self._count_voters()

    def key_of(self, peer: bytes) -> bytes | None:
        """The key that a peer proved."""
        return self._keys.get(peer)

    def is_voter(self, peer: bytes) -> bool:
        """Whether a peer proved the key of a member."""
        return self._keys.get(peer) in self._members.index

    def in_order(self) -> tuple[bytes, ...]:
        """Everybody, members first."""
        return self._order

    def linked(self) -> frozenset[bytes]:
        """Members whose ballots reach this node without anybody's help, itself among them."""
        linked = frozenset(self.voters)
        if self._session is None or self._session not in self._members.index:
            return linked
        return linked | {self._session}

    def _count_voters(self) -> None:
        self.voters = {key: peer for key, peer in self._peers_by_key.items() if key in self._members.index}
        # Kept, because every message asks for it: made anew each time it was most of the work of 128 members.
        members = dict.fromkeys(self.voters.values())
        self._order = (*members, *(peer for peer in self._keys if peer not in members))
