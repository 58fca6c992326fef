"""Messages of one kind that a pool takes from peers and passes on: heartbeats, attestations, evidence.

What always holds: an id is looked up before anything else is done with a message; a message is passed on only after the
pool took it, and never back to whom it came from; one that was refused is looked at again where it is told again upon
another block, since what it speaks of may be here by now, and a few times at most.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from node.p2p.frames import FrameKind
from node.p2p.gossip import Gossip
from node.peers.peers import Peers
from node.pool.refusal import UNDECODABLE, PoolRefusalError
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError

LOOKS_MAX = 4
"""At one message, which may cost a signature each time; a heartbeat is told so often, over an epoch."""
REFUSED_MAX = 4_096
_LOG = logging.getLogger(__name__)
Heard = TypeVar("Heard")


@dataclass(frozen=True, slots=True)
class _Refused:
    """A message that was not taken: upon which block, and how often."""

    upon: bytes
    looks: int


class Spreading:
    """One kind of message of one node, with a memory of its own."""

    def __init__(self, kind: FrameKind, peers: Peers, gossip: Gossip, upon: Callable[[], bytes]) -> None:
        """`upon` names the block on whose state messages are judged."""
        self._kind = kind
        self._peers = peers
        self._gossip = gossip
        self._upon = upon
        self._refused: dict[bytes, _Refused] = {}

    def tell(self, raw: bytes) -> None:
        """Tell peers what is this node's own; also when it is told again."""
        self._send(self._gossip.on_own(blake2_256(raw), self._peers.peer_ids()), raw)

    def hear(self, kind: FrameKind, raw: bytes, peer: str, take: Callable[[bytes], object]) -> None:
        """Take a peer's message if it is of this kind and new, and pass it on unless `take` refuses it."""
        if kind is not self._kind:
            return
        identity = blake2_256(raw)
        refused = self._refused.get(identity)
        if refused is not None and refused.looks < LOOKS_MAX and refused.upon != self._upon():
            self._gossip.seen.forget(identity)
        targets = self._gossip.on_message(identity, peer, self._peers.peer_ids())
        if targets is None:
            return
        try:
            take(raw)
        except PoolRefusalError as refusal:
            _LOG.debug("%s of peer %s is not taken: %s", self._kind.name, peer, refusal)
            self._note_refused(identity)
            return
        self._refused.pop(identity, None)
        self._send(targets, raw)

    def _note_refused(self, identity: bytes) -> None:
        """Remember it as one to be looked at again, behind all that were refused before."""
        before = self._refused.pop(identity, None)
        self._refused[identity] = _Refused(self._upon(), 1 if before is None else before.looks + 1)
        if len(self._refused) > REFUSED_MAX:
            del self._refused[next(iter(self._refused))]

    def _send(self, targets: Iterable[str], raw: bytes) -> None:
        for target in targets:
            self._peers.transport.send(target, self._kind, raw)


def decoded(decode: Callable[[bytes], Heard], raw: bytes, name: str) -> Heard:
    """What the bytes say; `PoolRefusalError` where they are no such message."""
    try:
        return decode(raw)
    except DecodeError as error:
        raise PoolRefusalError(UNDECODABLE, f"{name} has invalid format", str(error)) from error
