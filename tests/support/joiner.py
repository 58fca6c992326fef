"""A node at its genesis that requests and serves handoffs. The test plays its peers."""

from __future__ import annotations

from block_maker import FIRST_SLOT, now_of
from consensus.validators import ValidatorSet
from handed_history import handed_on
from node.ledger.chain import Chain
from node.p2p.frames import FrameKind
from node.peers.messages import GET_HANDOFFS, HANDOFFS, HANDOFFS_PER_ANSWER_MAX, PeerStatus
from node.peers.peers import Peers
from node.sync.checkpoint_watch import CheckpointWatch
from node.sync.sets_ahead import ASK_MS, SetsAhead
from played_transport import PlayedTransport

PEER, OTHER = b"peer", b"other"


class Joiner:
    """A node at its genesis. The test plays its peers."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.transport = PlayedTransport("peer", "other")
        self.validators: set[str] = set()
        self.peers = Peers(self.transport, self.validators.__contains__)
        self.now_ms = now_of(FIRST_SLOT + 1_000_000)
        self.standings: dict[bytes, PeerStatus] = {}
        self.ahead = SetsAhead(chain, self.peers, lambda: self.now_ms, CheckpointWatch(chain))

    def claim(self, peer: bytes, epoch: int) -> None:
        """Let a peer claim an epoch."""
        height = self.chain.parameters.boundary(epoch - 1)
        self.standings[peer] = PeerStatus(b"t" * 32, height, b"f" * 32, height)

    def asks(self) -> list[tuple[bytes, int]]:
        """Return the asked peers, each with the first epoch of the request."""
        before = len(self.transport.sent)
        self.now_ms += ASK_MS
        self.ahead.ask(self.standings)
        sent = self.transport.sent[before:]
        assert all(kind is FrameKind.GET_HANDOFFS for _, kind, _ in sent)
        requests = [(peer.encode(), GET_HANDOFFS.decode(payload)) for peer, _, payload in sent]
        assert all(request.count == HANDOFFS_PER_ANSWER_MAX for _, request in requests)
        return [(peer, request.from_epoch) for peer, request in requests]

    def answer(self, peer: bytes, *handoffs: bytes) -> int:
        """Let a peer answer. Return the number of examined handoffs."""
        self.ahead.on_answer(HANDOFFS.encode(handoffs), peer)
        looked_at = 0
        while self.ahead.has_work:
            assert self.ahead.follow_next() == peer
            looked_at += 1
        assert self.ahead.follow_next() is None
        return looked_at


def history(chain: Chain, sets: list[tuple[str, ...]]) -> tuple[list[bytes], list[ValidatorSet]]:
    """Return the handoffs from Alice alone over these sets, and the sets."""
    first = chain.epochs(0)
    assert first is not None
    return handed_on(chain.parameters, chain.genesis, first.validators, sets)
