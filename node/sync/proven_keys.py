"""Session keys that connected peers prove after their hello: those of a key rotation, before they have a seat.

Invariant: the proof has the form of a hello's, bound to the peer id of the connection. A peer proves keys no more often
than a validator has reason to. An invalid proof leaves the known keys unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

from node.ledger.listener import Listener
from node.p2p.frames import FrameKind
from node.p2p.meter import PeerRates
from node.peers.peer_proof import PeerProofs
from node.peers.peers import Peers

PER_SECOND, BURST = 0.1, 4.0
"""The rate of proofs. An epoch changes the order of keys, an operator adds a few: each costs 0.2 ms and a message."""


class ProvenKeys(Listener):
    """The intake of the proofs of one node's peers."""

    def __init__(
        self,
        peer_proofs: PeerProofs,
        peers: Peers,
        now_ms: Callable[[], int],
        on_keys: Callable[[str, tuple[bytes, ...]], None],
    ) -> None:
        """Create it; `on_keys` receives a peer whose proven keys changed."""
        self._peer_proofs = peer_proofs
        self._peers = peers
        self._now_ms = now_ms
        self._on_keys = on_keys
        self._proof_rates = PeerRates(PER_SECOND, BURST)

    def on_gossip(self, kind: FrameKind, payload: bytes, peer: str) -> None:
        """Check a peer's proof of its keys."""
        if kind is not FrameKind.KEYS:
            return
        now_ms, earlier_keys = self._now_ms(), self._peer_proofs.sessions.get(peer)
        if earlier_keys is None or not self._proof_rates.may(peer.encode(), now_ms):
            self._peers.penalise(peer.encode(), "too many key proofs, or one of no validator", now_ms)
        elif not self._peer_proofs.renew(peer, payload):
            self._peers.penalise(peer.encode(), "invalid key proofs", now_ms)
        elif self._peer_proofs.sessions[peer] != earlier_keys:
            self._on_keys(peer, self._peer_proofs.sessions[peer])
