"""A transport that only records calls. The test plays its peers."""

from __future__ import annotations

from collections.abc import Collection

import trio

from node.p2p.frames import FrameKind
from node.p2p.inbox import Inbox
from node.p2p.transport import PeerEvent, PeerInfo


class PlayedTransport:
    """A recording transport. See `node.p2p.transport.Transport`; it sends nothing."""

    peer_id = "me"
    address = "/ip4/127.0.0.1/tcp/1/p2p/me"
    addresses = (address,)

    def __init__(self, *peers: str) -> None:
        self.connected = list(peers)
        self.inbound = Inbox()
        self.sent: list[tuple[str, FrameKind, bytes]] = []
        self.banned: list[str] = []
        self._send, self.events = trio.open_memory_channel[PeerEvent](10)

    async def start(self, nursery: trio.Nursery) -> None:
        """Nothing to start."""

    async def stop(self) -> None:
        """Nothing to stop."""

    def peers(self) -> tuple[PeerInfo, ...]:
        """Return no peer."""
        return ()

    def send(self, peer: str, kind: FrameKind, payload: bytes) -> bool:
        """Write it down."""
        if peer not in self.connected:
            return False
        self.sent.append((peer, kind, payload))
        return True

    def broadcast(self, kind: FrameKind, payload: bytes, exclude: Collection[str] = ()) -> int:
        """Write it down for each."""
        return sum(self.send(peer, kind, payload) for peer in self.connected if peer not in exclude)

    def connect(self, address: str) -> None:
        """Nothing to connect."""

    def ban(self, peer: str, seconds: float) -> None:
        """Write it down."""
        del seconds
        self.banned.append(peer)
