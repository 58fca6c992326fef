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

    judged_upon: bytes
    look_count: int


class FailedChecks:
    """The number of invalid signatures for each source and owner in one epoch."""

    def __init__(self) -> None:
        self._counts_by_source: OrderedDict[tuple[str | None, bytes], int] = OrderedDict()
        self._epoch = -1

    def __len__(self) -> int:
        return len(self._counts_by_source)

    def refuse_more(self, source: str | None, key_owner: bytes, epoch: int) -> None:
        """Raise `ForgedError` if the source has used up the owner's checks; call it before reading state."""
        if epoch != self._epoch:
            self._counts_by_source.clear()
            self._epoch = epoch
        if self._counts_by_source.get((source, key_owner), 0) >= FAILED_CHECKS_MAX:
            raise ForgedError(INVALID, "Too many bad signatures", "this peer sent several for the same key")

    def note(self, source: str | None, key_owner: bytes) -> None:
        """Count one."""
        source_and_owner = source, key_owner
        self._counts_by_source[source_and_owner] = self._counts_by_source.get(source_and_owner, 0) + 1
        self._counts_by_source.move_to_end(source_and_owner)
        if (
            len(self._counts_by_source) > FAILED_CHECKS_REMEMBERED
        ):  # peer ids are free, so new ones must not fill memory
            self._counts_by_source.popitem(last=False)


class Spreading:
    """The gossip of one kind of message of one node, with a memory of its own."""

    def __init__(
        self,
        kind: FrameKind,
        peers: Peers,
        gossip: Gossip,
        judged_upon: Callable[[], bytes],
        blame: Blame,
        clock_seconds: Seconds,
    ) -> None:
        """Create it; `judged_upon` returns the id of the block on whose state messages are judged.

        `blame` receives the peers that send forgeries. `clock_seconds` is the clock of the node's CPU
        (`node.p2p.meter`), which measures refused work.
        """
        self._frame_kind = kind
        self._peers = peers
        self._gossip = gossip
        self._judged_upon = judged_upon
        self._blame_peer = blame
        self._clock_seconds = clock_seconds
        self._manners = Manners(clock_seconds())
        self._refused_items: dict[bytes, _Refused] = {}

    def tell(self, raw: bytes) -> None:
        """Send an own message to peers, even if it was sent before."""
        self._send_item(self._gossip.on_own(blake2_256(raw), self._peers.peer_ids()), raw)

    def hear(self, kind: FrameKind, raw: bytes, peer: str, take_item: Callable[[bytes], object]) -> None:
        """Take a peer's message if it is of this kind and new, and pass it on unless `take_item` refuses it."""
        if kind is not self._frame_kind:
            return
        begun_at = self._clock_seconds()
        # Before the id is remembered: another peer may send the same message, and must not be ignored.
        if not self._manners.is_heard(peer, begun_at):
            return
        identity = blake2_256(raw)
        earlier = self._refused_items.get(identity)
        if earlier is not None and earlier.look_count < LOOKS_MAX and earlier.judged_upon != self._judged_upon():
            self._gossip.seen.forget(identity)
        targets = self._gossip.on_message(identity, peer, self._peers.peer_ids())
        if targets is None:
            return
        try:
            take_item(raw)
        except PoolRefusalError as refusal:
            _LOG.debug("%s of peer %s is refused: %s", self._frame_kind.name, peer, refusal)
            self._note_refused(identity)
            now, is_forged = self._clock_seconds(), isinstance(refusal, ForgedError)
            if self._manners.on_refused(peer, now - begun_at, now, is_forged=is_forged):
                self._blame_peer(peer, f"{self._frame_kind.name} messages that no honest node relays: {refusal}")
            return
        self._manners.on_admitted(peer, self._clock_seconds())
        self._refused_items.pop(identity, None)
        self._send_item(targets, raw)

    def _note_refused(self, identity: bytes) -> None:
        """Remember a message for another judgement, behind all earlier ones."""
        earlier = self._refused_items.pop(identity, None)
        self._refused_items[identity] = _Refused(self._judged_upon(), 1 if earlier is None else earlier.look_count + 1)
        if len(self._refused_items) > REFUSED_MAX:
            del self._refused_items[next(iter(self._refused_items))]

    def _send_item(self, targets: Iterable[str], raw: bytes) -> None:
        for target in targets:
            self._peers.transport.send(target, self._frame_kind, raw)


def decoded(decode_item: Callable[[bytes], Heard], raw: bytes, item_name: str) -> Heard:
    """Decode a message. Raise `ForgedError` if the bytes are invalid."""
    try:
        return decode_item(raw)
    except DecodeError as error:
        raise ForgedError(UNDECODABLE, f"{item_name} has invalid format", str(error)) from error
