"""The connected and banned peers: one link per peer, chosen alike at both ends.

Invariant: there is at most one link per peer id. Of two connections made at the same moment, the one that the lower
peer id dialled stays. After that moment, a second connection of an authenticated peer means that it lost the first, so
the new one stays. The memory of bans is bounded.
"""

from collections.abc import Iterator
from typing import Final

from node.p2p.identity import PeerId
from node.p2p.link import Link

MAX_BANS: Final = 4096
SIMULTANEOUS_SECONDS: Final = 3.0
"""Two connections to one peer within this time count as simultaneous dials of both sides."""


class PeerTable:
    """Links and bans by peer id."""

    def __init__(self, own_peer_id: PeerId) -> None:
        self._own_peer_id = own_peer_id
        self._links_by_peer: dict[PeerId, Link] = {}
        self._banned_until: dict[PeerId, float] = {}

    def __len__(self) -> int:
        return len(self._links_by_peer)

    def __iter__(self) -> Iterator[Link]:
        """Iterate over the links, in the order of their creation."""
        return iter(tuple(self._links_by_peer.values()))

    def __contains__(self, peer_id: object) -> bool:
        return peer_id in self._links_by_peer

    def get(self, peer_id: PeerId) -> Link | None:
        """Return the link to a peer."""
        return self._links_by_peer.get(peer_id)

    def keeps_old(self, peer_id: PeerId, *, dialled_by_us: bool, now: float) -> bool:
        """Return whether a new connection to `peer_id` must yield to the existing link."""
        existing = self._links_by_peer.get(peer_id)
        # Later than this moment both sides did not dial at once: the authenticated peer lost the old link itself.
        if (
            existing is None
            or existing.connection.initiator == dialled_by_us
            or now - existing.connected_at > SIMULTANEOUS_SECONDS
        ):
            return False
        return existing.connection.initiator == (self._own_peer_id < peer_id)

    def put(self, link: Link) -> Link | None:
        """Enter `link`, and return the link that it replaces, which the caller closes."""
        replaced = self._links_by_peer.pop(link.peer_id, None)
        self._links_by_peer[link.peer_id] = link
        return replaced

    def remove(self, link: Link) -> bool:
        """Remove `link`; False if another has replaced it."""
        if self._links_by_peer.get(link.peer_id) is not link:
            return False
        del self._links_by_peer[link.peer_id]
        return True

    def ban(self, peer_id: PeerId, until_seconds: float) -> None:
        """Refuse a peer until a time; at the limit, the ban that ends first is dropped."""
        # A shorter ban must not end a longer one.
        self._banned_until[peer_id] = max(until_seconds, self._banned_until.get(peer_id, until_seconds))
        if len(self._banned_until) > MAX_BANS:
            del self._banned_until[min(self._banned_until, key=lambda banned_id: self._banned_until[banned_id])]

    def is_banned(self, peer_id: PeerId, now: float) -> bool:
        """Return whether a ban holds; drop one that has ended."""
        until_seconds = self._banned_until.get(peer_id)
        if until_seconds is not None and until_seconds <= now:
            del self._banned_until[peer_id]
            return False
        return until_seconds is not None
