"""Extrinsics on their way between peers and the pool, and this node's standing on its way to peers.

What always holds: an extrinsic is passed on only after it entered the pool, never back to whom it came from, and each
one once; ids are looked up before anything else is done with a message.
"""

from __future__ import annotations

from collections.abc import Callable

from node.listener import Listener
from node.p2p.frames import MAX_SMALL_PAYLOAD_BYTES, FrameKind
from node.p2p.gossip import Gossip
from node.peer_messages import PeerStatus
from node.peers import Peers
from node.pool.transaction_pool import TransactionPool
from runtime.cryptography.hashing import blake2_256


class Relay(Listener):
    """Between the network and the pool."""

    def __init__(self, network: Peers, gossip: Gossip, standing: Callable[[], PeerStatus]) -> None:
        self._network, self._gossip, self._standing = network, gossip, standing
        self.pool: TransactionPool

    def on_gossip(self, kind: FrameKind, payload: bytes, peer: str) -> None:
        """Hand a new extrinsic to the pool."""
        if kind is FrameKind.TX:
            extrinsic_hash = blake2_256(payload)
            if extrinsic_hash not in self._gossip.seen:
                self.pool.offer(payload, peer, extrinsic_hash)

    def on_admitted(self, extrinsic_hash: bytes, raw: bytes, peer: str | None) -> None:
        """It is in the pool: tell the others."""
        if len(raw) > MAX_SMALL_PAYLOAD_BYTES:
            return
        if peer is None:
            targets: tuple[str, ...] | None = self._gossip.on_own(extrinsic_hash, self._network.peer_ids())
        else:
            targets = self._gossip.on_message(extrinsic_hash, peer, self._network.peer_ids())
        for target in targets or ():
            self._network.transport.send(target, FrameKind.TX, raw)

    def on_tip(self, block: bytes) -> None:
        """Peers that are behind learn that there is something to fetch."""
        del block
        self._network.say_status(self._standing())
