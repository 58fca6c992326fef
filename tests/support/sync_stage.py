"""A maker of blocks, and another node that receives them through `Sync`."""

from __future__ import annotations

from pathlib import Path

from block_maker import FIRST_SLOT, Maker, now_of, open_at
from consensus import events as ev
from node.ledger.chain import Chain, ExecutedBlock
from node.p2p.frames import FrameKind
from node.peers.messages import GET_BLOCKS, GetBlocks
from node.peers.peers import Peers
from node.sync.sync import Sync
from played_transport import PlayedTransport

PEER, OTHER = b"peer", b"other"


class Stage:
    """A maker of blocks, and another node that receives them through `Sync`."""

    def __init__(self, path: Path) -> None:
        self.maker = Maker(path / "maker")
        self.chain: Chain = open_at(path / "other")
        self.transport = PlayedTransport("peer", "other")
        self.network = Peers(self.transport)
        self.now_ms = now_of(FIRST_SLOT + 10_000)
        self.unwelcome: list[bytes] = []
        self.events: list[ev.Event] = []
        self.foreseen: list[tuple[bytes, ...]] = []
        self.sync = Sync(
            self.chain,
            self.network,
            lambda: self.now_ms,
            lambda facts: facts.id not in self.unwelcome,
            lambda extrinsics: self.foreseen.append(tuple(extrinsics)),
        )

    def branch(self, count: int) -> list[ExecutedBlock]:
        """Return `count` blocks in a row."""
        blocks = [self.maker.make()]
        while len(blocks) < count:
            blocks.append(self.maker.make(blocks[-1].facts.id))
        return blocks

    def announce(self, data: bytes, peer: bytes = PEER) -> None:
        """Deliver a block."""
        self.events += self.sync.on_block(data, peer)

    def import_all(self) -> list[ev.Event]:
        """Import the waiting blocks. Return the machine's new events."""
        events, self.events = self.events, []
        while self.sync.has_work:
            events += self.sync.import_next()
        return events

    def requests(self) -> list[GetBlocks]:
        """Return the requests to peers."""
        return [GET_BLOCKS.decode(payload) for _, kind, payload in self.transport.sent if kind is FrameKind.GET_BLOCKS]
