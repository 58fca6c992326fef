"""Where this node stands, told to whoever connects, and to everybody when it moves.

Invariant: it is what the machine says at this moment; peers that are behind learn from it that there is
something to fetch, and prove it for themselves.
"""

from __future__ import annotations

from consensus.machine import Machine
from node.ledger.listener import Listener
from node.peers.messages import PeerStatus
from node.peers.peers import Peers


class NodeStanding(Listener):
    """The preferred tip and the last final block of one node."""

    def __init__(self, machine: Machine, peers: Peers) -> None:
        self._machine = machine
        self._peers = peers

    def now(self) -> PeerStatus:
        """Where this node stands."""
        tip, final = self._machine.tip, self._machine.final
        return PeerStatus(tip.id, tip.height, final.id, final.height)

    def tell(self, peer: bytes) -> None:
        """Tell a peer that has just connected."""
        self._peers.say_status(self.now(), peer)

    def on_tip(self, block: bytes) -> None:
        """Tell everybody."""
        del block
        self._peers.say_status(self.now())
