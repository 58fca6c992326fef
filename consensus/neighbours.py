"""The connected peers, their proven session keys, and the voters of this epoch among them.

A peer may prove several keys: its current voting key, and those of the neighbouring epochs.

Invariant: `voters` holds members of the epoch only, however many keys strangers create. Peers are in order of arrival.
"""

from consensus.validators import ValidatorSet


class Neighbours:
    """Connected peers of one node."""

    def __init__(self) -> None:
        """Start without peers. Call `begin` next."""
        self._keys: dict[bytes, tuple[bytes, ...]] = {}
        self._peers_by_key: dict[bytes, bytes] = {}
        self._order: tuple[bytes, ...] = ()
        self.voters: dict[bytes, bytes] = {}

    def __contains__(self, peer: bytes) -> bool:
        """Return True if a peer is connected."""
        return peer in self._keys

    def begin(self, members: ValidatorSet, session_key: bytes | None) -> None:
        """Start an epoch with other voters. `session_key` is this node's key in it, None for an observer."""
        self._members = members
        self.session = session_key
        self._count_voters()

    def connect(self, peer: bytes, session_keys: tuple[bytes, ...]) -> None:
        """Add a peer with its proven session keys, or replace the keys of a known peer."""
        self._forget_keys(peer)
        self._keys[peer] = session_keys
        self._peers_by_key.update(dict.fromkeys(session_keys, peer))
        self._count_voters()

    def disconnect(self, peer: bytes) -> None:
        """Remove a peer."""
        self._forget_keys(peer)
        self._count_voters()

    def keys_of(self, peer: bytes) -> tuple[bytes, ...]:
        """Return the proven keys of a peer."""
        return self._keys.get(peer, ())

    def is_voter(self, peer: bytes) -> bool:
        """Return True if a peer proved the key of a member."""
        return any(session_key in self._members.index for session_key in self.keys_of(peer))

    def in_order(self) -> tuple[bytes, ...]:
        """Return all peers, members first."""
        return self._order

    def linked(self) -> frozenset[bytes]:
        """Return the members whose ballots reach this node without a relay, itself included."""
        linked = frozenset(self.voters)
        if self.session is None or self.session not in self._members.index:
            return linked
        return linked | {self.session}

    def _forget_keys(self, peer: bytes) -> None:
        for session_key in self._keys.pop(peer, ()):
            # Another peer may have proved the same key since: only the newest proof counts.
            if self._peers_by_key.get(session_key) == peer:
                del self._peers_by_key[session_key]

    def _count_voters(self) -> None:
        self.voters = {
            session_key: peer
            for session_key, peer in self._peers_by_key.items()
            if session_key in self._members.index and session_key != self.session
        }
        # Cached, because every message reads it. Rebuilding it per message was most of the CPU time with 128 members.
        members = dict.fromkeys(self.voters.values())
        self._order = (*members, *(peer for peer in self._keys if peer not in members))
