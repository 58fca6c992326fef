"""Messages of one kind that a pool takes from peers and passes on: heartbeats, attestations, evidence.

Invariant: an id is looked up before anything else is done with a message; a message is passed on only after the
pool took it, and never back to whom it came from; one that was refused is looked at again where it is told again upon
another block, since its subject may have arrived, and a few times at most. A peer pays for forgeries (`manners`): the
node does no more refused work for it than its share, and forgeries without good messages get it banned. Failed
signatures are counted by sender and by the key's owner, and few are checked.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from node.p2p.frames import FrameKind
from node.p2p.gossip import Gossip
from node.p2p.meter import Seconds
from node.peers.peers import Peers
from node.pool.manners import Blame, Manners
from node.pool.refusal import INVALID, UNDECODABLE, ForgedError, PoolRefusalError
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError

LOOKS_MAX = 4
"""At one message, which may cost a signature each time; a heartbeat is told so often, over an epoch."""
REFUSED_MAX = 4_096
FAILED_CHECKS_MAX = 4
"""Of one peer, for one owner's key, in an epoch: an honest peer brings a bad signature where a key has just changed."""
FAILED_CHECKS_REMEMBERED = 4_096
_LOG = logging.getLogger(__name__)
Heard = TypeVar("Heard")


@dataclass(frozen=True, slots=True)
class _Refused:
    """A message that was not taken: upon which block, and how often."""

    upon: bytes
    looks: int


class FailedChecks:
    """Counts each owner's invalid signatures, for each source, in one epoch."""

    def __init__(self) -> None:
        self._counts: OrderedDict[tuple[str | None, bytes], int] = OrderedDict()
        self._epoch = -1

    def __len__(self) -> int:
        return len(self._counts)

    def refuse_more(self, source: str | None, owner: bytes, epoch: int) -> None:
        """Raise `ForgedError` if the source has used up the owner's checks; call it before reading state."""
        if epoch != self._epoch:
            self._counts.clear()
            self._epoch = epoch
        if self._counts.get((source, owner), 0) >= FAILED_CHECKS_MAX:
            raise ForgedError(INVALID, "Too many bad signatures", "this peer brought several for the same key")

    def note(self, source: str | None, owner: bytes) -> None:
        """Count one."""
        key = source, owner
        self._counts[key] = self._counts.get(key, 0) + 1
        self._counts.move_to_end(key)
        if len(self._counts) > FAILED_CHECKS_REMEMBERED:  # peer ids cost nothing: new ones fill no memory
            self._counts.popitem(last=False)


class Spreading:
    """One kind of message of one node, with a memory of its own."""

    def __init__(
        self,
        kind: FrameKind,
        peers: Peers,
        gossip: Gossip,
        upon: Callable[[], bytes],
        blame: Blame,
        seconds: Seconds,
    ) -> None:
        """`upon` names the block on whose state messages are judged; `blame` hears of peers that send forgeries.

        `seconds` is the clock of the node's CPU (`node.p2p.meter`), by which refused work is measured.
        """
        self._kind = kind
        self._peers = peers
        self._gossip = gossip
        self._upon = upon
        self._blame = blame
        self._seconds = seconds
        self._manners = Manners(seconds())
        self._refused: dict[bytes, _Refused] = {}

    def tell(self, raw: bytes) -> None:
        """Tell peers what is this node's own; also when it is told again."""
        self._send(self._gossip.on_own(blake2_256(raw), self._peers.peer_ids()), raw)

    def hear(self, kind: FrameKind, raw: bytes, peer: str, take: Callable[[bytes], object]) -> None:
        """Take a peer's message if it is of this kind and new, and pass it on unless `take` refuses it."""
        if kind is not self._kind:
            return
        begun = self._seconds()
        # Before the id is remembered: another peer may bring the same message, and is heard.
        if not self._manners.is_heard(peer, begun):
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
            now, is_forged = self._seconds(), isinstance(refusal, ForgedError)
            if self._manners.on_refused(peer, now - begun, now, is_forged=is_forged):
                self._blame(peer, f"{self._kind.name} messages that no honest node passes on: {refusal}")
            return
        self._manners.on_admitted(peer, self._seconds())
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
    """Decode a message; `ForgedError` for other bytes."""
    try:
        return decode(raw)
    except DecodeError as error:
        raise ForgedError(UNDECODABLE, f"{name} has invalid format", str(error)) from error
