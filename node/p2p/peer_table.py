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

    def __init__(self, own: PeerId) -> None:
        self._own = own
        self._links: dict[PeerId, Link] = {}
        self._banned_until: dict[PeerId, float] = {}

    def __len__(self) -> int:
        return len(self._links)

    def __iter__(self) -> Iterator[Link]:
        """Iterate over the links, in the order of their creation."""
        return iter(tuple(self._links.values()))

    def __contains__(self, peer_id: object) -> bool:
        return peer_id in self._links

    def get(self, peer_id: PeerId) -> Link | None:
        """Return the link to a peer."""
        return self._links.get(peer_id)

    def keeps_old(self, peer_id: PeerId, *, dialled_by_us: bool, now: float) -> bool:
        """Return whether a new connection to `peer_id` must yield to the existing link."""
        old = self._links.get(peer_id)
        # Later than this moment both sides did not dial at once: the authenticated peer lost the old link itself.
        if old is None or old.connection.initiator == dialled_by_us or now - old.since > SIMULTANEOUS_SECONDS:
            return False
        return old.connection.initiator == (self._own < peer_id)

    def put(self, link: Link) -> Link | None:
        """Enter `link`, and return the link that it replaces, which the caller closes."""
        replaced = self._links.pop(link.peer_id, None)
        self._links[link.peer_id] = link
        return replaced

    def remove(self, link: Link) -> bool:
        """Remove `link`; False if another has replaced it."""
        if self._links.get(link.peer_id) is not link:
            return False
        del self._links[link.peer_id]
        return True

    def ban(self, peer_id: PeerId, until: float) -> None:
        """Refuse a peer until a time; at the limit, the ban that ends first is dropped."""
        # A shorter ban must not end a longer one.
        self._banned_until[peer_id] = max(until, self._banned_until.get(peer_id, until))
        if len(self._banned_until) > MAX_BANS:
            del self._banned_until[min(self._banned_until, key=lambda banned: self._banned_until[banned])]

    def is_banned(self, peer_id: PeerId, now: float) -> bool:
        """Return whether a ban holds; drop one that has ended."""
        until = self._banned_until.get(peer_id)
        if until is not None and until <= now:
            del self._banned_until[peer_id]
            return False
        return until is not None
