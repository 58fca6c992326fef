"""This node's status goes to each new peer, and to all peers when the tip moves."""

from __future__ import annotations

from types import SimpleNamespace

from node.p2p.frames import FrameKind
from node.peers.messages import STATUS, PeerStatus
from node.peers.peers import Peers
from node.sync.status import NodeStanding
from played_transport import PlayedTransport


def test_it_is_what_the_machine_says_at_this_moment() -> None:
    transport = PlayedTransport("a", "b")
    machine = SimpleNamespace(
        tip=SimpleNamespace(id=b"t" * 32, height=5), final=SimpleNamespace(id=b"f" * 32, height=4)
    )
    standing = NodeStanding(machine, Peers(transport))  # type: ignore[arg-type]  # of a machine it reads tip and final
    assert standing.now() == PeerStatus(b"t" * 32, 5, b"f" * 32, 4)
    standing.tell(b"a")
    assert transport.sent == [("a", FrameKind.STATUS, STATUS.encode(standing.now()))]
    machine.tip = SimpleNamespace(id=b"u" * 32, height=6)
    standing.on_tip(b"u" * 32)
    moved = STATUS.encode(PeerStatus(b"u" * 32, 6, b"f" * 32, 4))
    assert transport.sent[1:] == [(peer, FrameKind.STATUS, moved) for peer in "ab"]
