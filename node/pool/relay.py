"""Gossip of extrinsics from the pool to peers.

Invariant: an extrinsic is passed on once, only after it entered the pool, and never back to its source. The look-up of
its id comes before any other work on a message.
"""

from __future__ import annotations

from node.p2p.frames import MAX_SMALL_PAYLOAD_BYTES, FrameKind
from node.p2p.gossip import Gossip
from node.peers.peers import Peers


class Relay:
    """The gossip of admitted extrinsics."""

    def __init__(self, peers: Peers, gossip: Gossip) -> None:
        self._peers = peers
        self._gossip = gossip

    def has_passed_on(self, extrinsic_hash: bytes) -> bool:
        """Return whether an extrinsic was here recently: then it was judged, and sent to peers that lacked it."""
        return extrinsic_hash in self._gossip.seen

    def pass_on(self, extrinsic_hash: bytes, raw: bytes, source: str | None) -> None:
        """Send an admitted extrinsic to peers; `source` is the peer that sent it, None for this node's user."""
        # No gossip frame can carry it, so it waits for a block of this node's own.
        if len(raw) > MAX_SMALL_PAYLOAD_BYTES:
            return
        targets: tuple[str, ...] | None
        if source is None:
            targets = self._gossip.on_own(extrinsic_hash, self._peers.peer_ids())
        else:
            targets = self._gossip.on_message(extrinsic_hash, source, self._peers.peer_ids())
        for target in targets or ():
            self._peers.transport.send(target, FrameKind.TX, raw)
