"""Session keys that connected peers prove beside those of their hello: after a rotation, before the new ones sit.

Invariant: the proof is that of a hello, bound to the peer id of the connection; a peer proves no more often
than a validator has reason to, and one that proves nothing changes nothing of what is known.
"""

from __future__ import annotations

from collections.abc import Callable

from node.ledger.listener import Listener
from node.p2p.frames import FrameKind
from node.p2p.meter import PeerRates
from node.peers.peer_proof import PeerProofs
from node.peers.peers import Peers

PER_SECOND, BURST = 0.1, 4.0
"""An epoch may bring other keys to the front, and an operator a few: each costs 0.2 ms and a word to the peer."""


class ProvenKeys(Listener):
    """Takes the proofs of one node's peers."""

    def __init__(
        self,
        proofs: PeerProofs,
        peers: Peers,
        now_ms: Callable[[], int],
        on_keys: Callable[[str, tuple[bytes, ...]], None],
    ) -> None:
        """`on_keys` hears of a peer whose keys are others now."""
        self._proofs = proofs
        self._peers = peers
        self._now_ms = now_ms
        self._on_keys = on_keys
        self._rates = PeerRates(PER_SECOND, BURST)

    def on_gossip(self, kind: FrameKind, payload: bytes, peer: str) -> None:
        """A peer shows which keys it has."""
        if kind is not FrameKind.KEYS:
            return
        now_ms, before = self._now_ms(), self._proofs.sessions.get(peer)
        if before is None or not self._rates.may(peer.encode(), now_ms):
            self._peers.penalise(peer.encode(), "proofs of keys, too many or of no validator", now_ms)
        elif not self._proofs.renew(peer, payload):
            self._peers.penalise(peer.encode(), "proofs of keys that do not hold", now_ms)
        elif self._proofs.sessions[peer] != before:
            self._on_keys(peer, self._proofs.sessions[peer])
