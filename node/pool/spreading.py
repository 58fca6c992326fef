"""Messages of one kind that a pool takes from peers and passes on: heartbeats, attestations, evidence.

What always holds: an id is looked up before anything else is done with a message; a message is passed on only after the
pool took it, and never back to whom it came from.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from node.p2p.frames import FrameKind
from node.p2p.gossip import Gossip
from node.peers.peers import Peers
from node.pool.refusal import UNDECODABLE, PoolRefusalError
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError

_LOG = logging.getLogger(__name__)
Heard = TypeVar("Heard")


class Spreading:
    """One kind of message of one node, with a memory of its own."""

    def __init__(self, kind: FrameKind, peers: Peers, gossip: Gossip) -> None:
        self._kind = kind
        self._peers = peers
        self._gossip = gossip

    def tell(self, raw: bytes) -> None:
        """Tell peers what is this node's own; also when it is told again."""
        self._send(self._gossip.on_own(blake2_256(raw), self._peers.peer_ids()), raw)

    def hear(self, kind: FrameKind, raw: bytes, peer: str, take: Callable[[bytes], object]) -> None:
        """Take a peer's message if it is of this kind and new, and pass it on unless `take` refuses it."""
        if kind is not self._kind:
            return
        targets = self._gossip.on_message(blake2_256(raw), peer, self._peers.peer_ids())
        if targets is None:
            return
        try:
            take(raw)
        except PoolRefusalError as refusal:
            _LOG.debug("%s of peer %s is not taken: %s", self._kind.name, peer, refusal)
            return
        self._send(targets, raw)

    def _send(self, targets: Iterable[str], raw: bytes) -> None:
        for target in targets:
            self._peers.transport.send(target, self._kind, raw)


def decoded(decode: Callable[[bytes], Heard], raw: bytes, name: str) -> Heard:
    """What the bytes say; `PoolRefusalError` where they are no such message."""
    try:
        return decode(raw)
    except DecodeError as error:
        raise PoolRefusalError(UNDECODABLE, f"{name} has invalid format", str(error)) from error
