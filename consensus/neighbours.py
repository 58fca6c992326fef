"""Who is connected: peers, the session keys that they proved, and which of these vote in this epoch.

A peer may prove several keys: the one that it votes with now, and those of the epochs around.

Always: `voters` holds members of the epoch only, whatever keys strangers make for themselves; order is that of arrival.
"""

from consensus.validators import ValidatorSet


class Neighbours:
    """Connected peers of one node."""

    def __init__(self) -> None:
        """Nobody is connected; call `begin` next."""
        self._keys: dict[bytes, tuple[bytes, ...]] = {}
        self._peers_by_key: dict[bytes, bytes] = {}
        self._order: tuple[bytes, ...] = ()
        self.voters: dict[bytes, bytes] = {}

    def __contains__(self, peer: bytes) -> bool:
        """Whether a peer is connected."""
        return peer in self._keys

    def begin(self, members: ValidatorSet, session: bytes | None) -> None:
        """Another set votes; `session` is the own key in it, None for an observer."""
        self._members = members
        self.session = session
        self._count_voters()

    def connect(self, peer: bytes, keys: tuple[bytes, ...]) -> None:
        """A peer is there, with the session keys that it proved; or it proved others."""
        self._forget_keys(peer)
        self._keys[peer] = keys
        self._peers_by_key.update(dict.fromkeys(keys, peer))
        self._count_voters()

    def disconnect(self, peer: bytes) -> None:
        """A peer is gone."""
        self._forget_keys(peer)
        self._count_voters()

    def keys_of(self, peer: bytes) -> tuple[bytes, ...]:
        """The keys that a peer proved."""
        return self._keys.get(peer, ())

    def is_voter(self, peer: bytes) -> bool:
        """Whether a peer proved the key of a member."""
        return any(key in self._members.index for key in self.keys_of(peer))

    def in_order(self) -> tuple[bytes, ...]:
        """Everybody, members first."""
        return self._order

    def linked(self) -> frozenset[bytes]:
        """Members whose ballots reach this node without anybody's help, itself among them."""
        linked = frozenset(self.voters)
        if self.session is None or self.session not in self._members.index:
            return linked
        return linked | {self.session}

    def _forget_keys(self, peer: bytes) -> None:
        for key in self._keys.pop(peer, ()):
            if self._peers_by_key.get(key) == peer:
                del self._peers_by_key[key]

    def _count_voters(self) -> None:
        self.voters = {
            key: peer for key, peer in self._peers_by_key.items() if key in self._members.index and key != self.session
        }
        # Kept, because every message asks for it: made anew each time it was most of the work of 128 members.
        members = dict.fromkeys(self.voters.values())
        self._order = (*members, *(peer for peer in self._keys if peer not in members))
