"""Consensus and sync messages over the transport, the frame kind of each, and penalties for misbehaving peers.

Invariant: a peer that repeatedly sends messages that no honest peer sends is banned for a while. A single mistake is
not enough if an honest message could be a moment too old or too new.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TypeAlias

from consensus.certificates import CERTIFICATE
from consensus.wire import MESSAGE, Certified, Chits, Message, NeedCerts, Propose, PullQuery, Vote
from node.p2p.frames import MAX_SMALL_PAYLOAD_BYTES, FrameKind
from node.p2p.transport import Transport
from node.peers.messages import GET_BLOCKS, GET_HANDOFFS, STATUS, GetBlocks, GetHandoffs, PeerStatus

CONSENSUS_KINDS: dict[type[Message], FrameKind] = {
    PullQuery: FrameKind.POLL_QUERY,
    Chits: FrameKind.CHITS,
    Propose: FrameKind.VOTE,
    Vote: FrameKind.VOTE,
    Certified: FrameKind.CERT,
    NeedCerts: FrameKind.GET_CERTS,
}
PENALTIES_MAX = 10
PENALTY_WINDOW_MS = 60_000
BAN_SECONDS = 300.0
IDS_SECONDS = 0.1  # the time for which a list of peer ids counts as fresh
PENALISED_MAX = 1_024  # peers whose mistakes are remembered
CERTIFIED_OVERHEAD_BYTES = 16
_LOG = logging.getLogger(__name__)
Peer: TypeAlias = bytes


class Peers:
    """The loop's messages to peers. A peer is the bytes of its id, as consensus needs it."""

    def __init__(self, transport: Transport, is_validator: Callable[[str], bool] = lambda _: False) -> None:
        """Create it; `is_validator` returns whether a peer proved a key of the active or the elected set."""
        self.transport = transport
        self._is_validator = is_validator
        self._penalties: dict[Peer, deque[int]] = {}
        self.penalties = 0
        self._peer_ids: list[str] = []
        self._ids_until = 0.0

    def send(self, peer: Peer, message: Message) -> None:
        """Queue a consensus message for one peer."""
        for part in _fitting_parts(message):
            self.transport.send(peer.decode(), CONSENSUS_KINDS[type(part)], MESSAGE.encode(part))

    def broadcast(self, message: Message) -> None:
        """Queue a consensus message for all connected peers."""
        for part in _fitting_parts(message):
            self.transport.broadcast(CONSENSUS_KINDS[type(part)], MESSAGE.encode(part))

    def announce(self, block_bytes: bytes) -> None:
        """Queue a block's bytes for all connected peers."""
        self.transport.broadcast(FrameKind.BLOCK, block_bytes)

    def say_status(self, status: PeerStatus, peer: Peer | None = None) -> None:
        """Send this node's status to one peer, or to all."""
        if peer is None:
            self.transport.broadcast(FrameKind.STATUS, STATUS.encode(status))
        else:
            self.transport.send(peer.decode(), FrameKind.STATUS, STATUS.encode(status))

    def request_blocks(self, peer: Peer, request: GetBlocks) -> bool:
        """Ask a peer for blocks; False if it is disconnected."""
        return self.transport.send(peer.decode(), FrameKind.GET_BLOCKS, GET_BLOCKS.encode(request))

    def request_handoffs(self, peer: Peer, request: GetHandoffs) -> bool:
        """Ask a peer for handoffs; False if it is disconnected."""
        return self.transport.send(peer.decode(), FrameKind.GET_HANDOFFS, GET_HANDOFFS.encode(request))

    def is_stranger(self, peer: Peer) -> bool:
        """Return whether a peer has proved no validator's key: such peer names are free."""
        return not self._is_validator(peer.decode())

    def peer_ids(self) -> list[str]:
        """Return the connected peers, up to `IDS_SECONDS` old: gossip asks for every message."""
        now = monotonic()
        if now >= self._ids_until:
            self._peer_ids = [info.peer for info in self.transport.peers()]
            self._ids_until = now + IDS_SECONDS
        return self._peer_ids

    def penalise(self, peer: Peer, reason: str, now_ms: int, weight: int = 1) -> None:
        """Record a message that no honest peer sends; the peer is banned after enough of them in a minute.

        `weight` is the number of mistakes for which it counts: `PENALTIES_MAX` for one that no honest peer can make.
        """
        recent_penalties = self._penalties.setdefault(peer, deque(maxlen=PENALTIES_MAX))
        if len(self._penalties) > PENALISED_MAX:  # peer ids are free, so new ones must not fill memory
            self._penalties.pop(next(iter(self._penalties)))
        recent_penalties.extend([now_ms] * weight)
        self.penalties += 1
        _LOG.info("peer %s: %s", peer.decode(), reason)
        # One light mistake is never enough: an honest peer's message may be a moment too old or too new.
        if len(recent_penalties) == PENALTIES_MAX and recent_penalties[0] > now_ms - PENALTY_WINDOW_MS:
            _LOG.warning("peer %s is banned for %.0f s: %s", peer.decode(), BAN_SECONDS, reason)
            del self._penalties[peer]
            self.transport.ban(peer.decode(), BAN_SECONDS)


def _fitting_parts(message: Message) -> list[Message]:
    """Return the message, split into several if its certificates do not fit into one."""
    if not isinstance(message, Certified):
        return [message]
    parts: list[Message] = []
    start = part_bytes = 0
    for position, certificate in enumerate(message.certificates):
        certificate_bytes = len(CERTIFICATE.encode(certificate))
        if position > start and part_bytes + certificate_bytes > MAX_SMALL_PAYLOAD_BYTES - CERTIFIED_OVERHEAD_BYTES:
            parts.append(Certified(message.certificates[start:position]))
            start, part_bytes = position, 0
        part_bytes += certificate_bytes
    return [*parts, Certified(message.certificates[start:])]
