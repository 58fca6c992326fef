"""What the node needs of a network: an interface with two implementations, py-libp2p here and the simulator's.

What always holds for every implementation: `send` and `broadcast` never wait; messages of one class from one peer
arrive in the order sent; a message may be lost; a peer id is authenticated.
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
    """The transport cannot start or do as asked; the message says what to do."""


class PortInUse(TransportError):
    """Another process listens on the p2p port."""


@dataclass(frozen=True, slots=True)
class PeerUp:
    """A peer is connected and said hello."""

    peer: PeerId
    role: Role


@dataclass(frozen=True, slots=True)
class PeerDown:
    """A peer is gone; `reason` is for the log."""

    peer: PeerId
    reason: str


PeerEvent = PeerUp | PeerDown


@dataclass(frozen=True, slots=True)
class PeerInfo:
    """What an operator wants to see of a peer. Times in seconds, `rtt_seconds` None until measured."""

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
    """The network as the node sees it."""

    @property
    def peer_id(self) -> PeerId:
        """This node's name on the network."""

    @property
    def address(self) -> str:
        """The best of `addresses`."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where others dial this node."""

    @property
    def inbound(self) -> Inbox:
        """What peers have sent; one reader."""

    @property
    def events(self) -> trio.MemoryReceiveChannel[PeerEvent]:
        """Peers that came and went. Hints: when nobody reads them the newest are lost; `peers` is the truth."""

    async def start(self, nursery: trio.Nursery) -> None:
        """Listen and dial from now on, in tasks of `nursery`. Raise `TransportError`."""

    async def stop(self) -> None:
        """Say goodbye to everybody and close."""

    def peers(self) -> tuple[PeerInfo, ...]:
        """Everybody connected, by peer id."""

    def send(self, peer: PeerId, kind: FrameKind, payload: bytes) -> bool:
        """Queue a message; False when the peer is not connected or its queue is full."""

    def broadcast(self, kind: FrameKind, payload: bytes, exclude: Collection[PeerId] = ()) -> int:
        """Queue a message for every peer but `exclude`; for how many it was queued."""

    def connect(self, address: str) -> None:
        """Keep a connection to this address (a multiaddress with a peer id). Raise `ValueError`."""

    def ban(self, peer: PeerId, seconds: float) -> None:
        """Close the connection to a peer and refuse it for a while."""
