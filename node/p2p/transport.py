"""The node's network interface, with two implementations: py-libp2p here, and the simulator's.

Invariants of every implementation: `send` and `broadcast` never wait. Messages of one class from one peer arrive in the
order sent. A message may be lost. A peer id is authenticated.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import trio

from node.p2p.frames import FrameKind
from node.p2p.hello import Role
from node.p2p.identity import PeerId
from node.p2p.inbox import Inbox


class TransportError(Exception):
    """The transport cannot start or carry out a request; the message says what to do."""


class PortInUse(TransportError):
    """Another process listens on the p2p port."""


@dataclass(frozen=True, slots=True)
class PeerUp:
    """A peer connected and sent its hello."""

    peer: PeerId
    role: Role


@dataclass(frozen=True, slots=True)
class PeerDown:
    """A peer disconnected; `reason` is for the log."""

    peer: PeerId
    reason: str


PeerEvent = PeerUp | PeerDown


@dataclass(frozen=True, slots=True)
class PeerInfo:
    """The details of a peer for an operator; times in seconds, `rtt_seconds` None until measured."""

    peer: PeerId
    role: Role
    address: str
    outbound: bool
    connected_seconds: float
    rtt_seconds: float | None
    received_bytes: int
    sent_bytes: int
    queued_bytes: int
    dropped: int


class Transport(Protocol):
    """The network as the node uses it."""

    @property
    def peer_id(self) -> PeerId:
        """This node's name on the network."""

    @property
    def address(self) -> str:
        """The best one of `addresses`."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses at which other nodes dial this node."""

    @property
    def inbound(self) -> Inbox:
        """The messages from peers; one reader."""

    @property
    def events(self) -> trio.MemoryReceiveChannel[PeerEvent]:
        """Peers that connected and disconnected. Without a reader the newest events are lost; `peers` is complete."""

    async def start(self, nursery: trio.Nursery) -> None:
        """Start to listen and dial, in tasks of `nursery`. Raise `TransportError` if that is impossible."""

    async def stop(self) -> None:
        """Send a goodbye to all peers and close."""

    def peers(self) -> tuple[PeerInfo, ...]:
        """Return all connected peers, by peer id."""

    def send(self, peer: PeerId, kind: FrameKind, payload: bytes) -> bool:
        """Queue a message; False when the peer is not connected or its queue is full."""

    def broadcast(self, kind: FrameKind, payload: bytes, exclude: Collection[PeerId] = ()) -> int:
        """Queue a message for every peer except `exclude`; return the number of peers."""

    def connect(self, address: str) -> None:
        """Keep a connection to this address (a multiaddress with a peer id). Raise `ValueError` if it is malformed."""

    def ban(self, peer: PeerId, seconds: float) -> None:
        """Close the connection to a peer and refuse it for a while."""
