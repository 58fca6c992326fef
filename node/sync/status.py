"""This node's status, sent to each new peer, and to all peers when it changes.

Invariant: it is the machine's state at the time of sending. Peers that are behind learn that there are blocks to fetch,
and verify those themselves.
"""

from __future__ import annotations

from consensus.machine import Machine
from node.ledger.listener import Listener
from node.peers.messages import PeerStatus
from node.peers.peers import Peers


class NodeStanding(Listener):
    """The preferred tip and the last final block of one node."""

    def __init__(self, machine: Machine, peers: Peers) -> None:
        self._consensus_machine = machine
        self._peers = peers

    def now(self) -> PeerStatus:
        """Return this node's status."""
        tip, final = self._consensus_machine.tip, self._consensus_machine.final
        return PeerStatus(tip.id, tip.height, final.id, final.height)

    def tell(self, peer: bytes) -> None:
        """Send the status to a peer that has just connected."""
        self._peers.say_status(self.now(), peer)

    def on_tip(self, block: bytes) -> None:
        """Send the status to all peers."""
        del block
        self._peers.say_status(self.now())
