"""Messages of one kind that a pool takes from peers and passes on: heartbeats, attestations, evidence.

Invariants:

* The look-up of a message's id comes before any other work.
* A message is passed on only after the pool took it, and never back to its source.
* A refused message that comes again upon another best block is judged again, since its subject may have arrived; at
  most `LOOKS_MAX` times.
* A peer pays for forgeries (`manners`): refused messages of a peer use at most its share of CPU, and a peer with more
  forgeries than good messages is banned.
* Failed signature checks are counted by source and by the key's owner, and only a few are done.
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
"""The most judgements of one message, which may cost a signature check each. A heartbeat is sent so often over an
epoch."""
REFUSED_MAX = 4_096
FAILED_CHECKS_MAX = 4
"""The most failed checks of one peer for one owner's key in an epoch. An honest peer sends a bad signature right after
a key change."""
FAILED_CHECKS_REMEMBERED = 4_096
_LOG = logging.getLogger(__name__)
Heard = TypeVar("Heard")


@dataclass(frozen=True, slots=True)
class _Refused:
    """A refused message: the best block at that time, and the number of judgements."""

    upon: bytes
    looks: int


class FailedChecks:
    """The number of invalid signatures for each source and owner in one epoch."""

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
            raise ForgedError(INVALID, "Too many bad signatures", "this peer sent several for the same key")

    def note(self, source: str | None, owner: bytes) -> None:
        """Count one."""
        key = source, owner
        self._counts[key] = self._counts.get(key, 0) + 1
        self._counts.move_to_end(key)
        if len(self._counts) > FAILED_CHECKS_REMEMBERED:  # peer ids are free, so new ones must not fill memory
            self._counts.popitem(last=False)


class Spreading:
    """The gossip of one kind of message of one node, with a memory of its own."""

    def __init__(
        self,
        kind: FrameKind,
        peers: Peers,
        gossip: Gossip,
        upon: Callable[[], bytes],
        blame: Blame,
        seconds: Seconds,
    ) -> None:
        """Create it; `upon` returns the id of the block on whose state messages are judged.

        `blame` receives the peers that send forgeries. `seconds` is the clock of the node's CPU (`node.p2p.meter`),
        which measures refused work.
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
        """Send an own message to peers, even if it was sent before."""
        self._send(self._gossip.on_own(blake2_256(raw), self._peers.peer_ids()), raw)

    def hear(self, kind: FrameKind, raw: bytes, peer: str, take: Callable[[bytes], object]) -> None:
        """Take a peer's message if it is of this kind and new, and pass it on unless `take` refuses it."""
        if kind is not self._kind:
            return
        begun = self._seconds()
        # Before the id is remembered: another peer may send the same message, and must not be ignored.
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
            _LOG.debug("%s of peer %s is refused: %s", self._kind.name, peer, refusal)
            self._note_refused(identity)
            now, is_forged = self._seconds(), isinstance(refusal, ForgedError)
            if self._manners.on_refused(peer, now - begun, now, is_forged=is_forged):
                self._blame(peer, f"{self._kind.name} messages that no honest node relays: {refusal}")
            return
        self._manners.on_admitted(peer, self._seconds())
        self._refused.pop(identity, None)
        self._send(targets, raw)

    def _note_refused(self, identity: bytes) -> None:
        """Remember a message for another judgement, behind all earlier ones."""
        before = self._refused.pop(identity, None)
        self._refused[identity] = _Refused(self._upon(), 1 if before is None else before.looks + 1)
        if len(self._refused) > REFUSED_MAX:
            del self._refused[next(iter(self._refused))]

    def _send(self, targets: Iterable[str], raw: bytes) -> None:
        for target in targets:
            self._peers.transport.send(target, self._kind, raw)


def decoded(decode: Callable[[bytes], Heard], raw: bytes, name: str) -> Heard:
    """Decode a message. Raise `ForgedError` if the bytes are invalid."""
    try:
        return decode(raw)
    except DecodeError as error:
        raise ForgedError(UNDECODABLE, f"{name} has invalid format", str(error)) from error
