"""Messages from peers that wait for the node: consensus before gossip before sync, and in turn by peer.

Invariants:

* Each peer has its own room in every class, in messages and bytes. A peer that fills its consensus room is not read
  until some of it is served, which slows the peer down. Gossip and sync that do not fit are dropped and counted.
* Peers take turns, so a peer's messages do not wait behind another's.
* A peer whose messages cost more CPU than its share waits until it has paid.
"""

from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import trio

from node.p2p.frames import FrameKind, MessageClass, class_of
from node.p2p.identity import PeerId
from node.p2p.meter import Seconds
from node.p2p.work import IsValidator, WorkAccounts


class InboxMessage(NamedTuple):
    """One message from a peer."""

    peer: PeerId
    kind: FrameKind
    payload: bytes


PEER_MESSAGES: Final = {MessageClass.CONSENSUS: 1024, MessageClass.GOSSIP: 4096, MessageClass.SYNC: 32}
PEER_BYTES: Final = {
    MessageClass.CONSENSUS: 512 * 1024,
    MessageClass.GOSSIP: 8 * 1024 * 1024,
    MessageClass.SYNC: 4 * 1024 * 1024,
}
"""The room of one peer; the message that fills it may exceed it."""
CLASS_BYTES: Final = 32 * 1024 * 1024
"""The room of all peers in gossip, and in sync. Beyond it, a peer with more than an even share loses new messages."""

# A shorter wait would make the loop spin.
LEAST_WAIT_SECONDS: Final = 0.001


@dataclass(slots=True)
class _Queue:
    """The waiting messages of one peer in one class."""

    messages: deque[InboxMessage] = field(default_factory=deque)
    queued_bytes: int = 0


def nobody(peer_id: PeerId) -> bool:
    """Return False, for a network without validators."""
    del peer_id
    return False


class Inbox:
    """A queue with many writers (one per peer) and one reader."""

    def __init__(self, is_validator: IsValidator = nobody, seconds: Seconds = trio.current_time) -> None:
        """Create it; `seconds` is the clock by which peers pay for their messages."""
        self._clock_seconds = seconds
        self._queues_by_class: dict[MessageClass, OrderedDict[PeerId, _Queue]] = {
            kind: OrderedDict() for kind in PEER_MESSAGES
        }
        self._class_bytes = dict.fromkeys(PEER_MESSAGES, 0)
        self._message_arrived = trio.Event()
        self._waiting_writers: dict[PeerId, trio.lowlevel.ParkingLot] = {}
        self._accounts = WorkAccounts(is_validator, 0.0)
        self.dropped = dict.fromkeys(PEER_MESSAGES, 0)

    def __len__(self) -> int:
        return sum(
            len(queue.messages)
            for queues_by_peer in self._queues_by_class.values()
            for queue in queues_by_peer.values()
        )

    async def put(self, inbox_message: InboxMessage) -> None:
        """Queue a message; wait if its peer's consensus room is full, drop it if another class is full."""
        message_class = class_of(inbox_message.kind)
        while self._is_full(message_class, inbox_message.peer):
            # Consensus is never dropped: instead its peer is not read until there is room.
            if message_class is not MessageClass.CONSENSUS:
                self.dropped[message_class] += 1
                return
            await self._waiting_writers.setdefault(inbox_message.peer, trio.lowlevel.ParkingLot()).park()
        queue = self._queues_by_class[message_class].setdefault(inbox_message.peer, _Queue())
        queue.messages.append(inbox_message)
        queue.queued_bytes += len(inbox_message.payload)
        self._class_bytes[message_class] += len(inbox_message.payload)
        self._message_arrived.set()

    def receive_nowait(self, *, consensus_only: bool = False) -> InboxMessage | None:
        """Return the next message to serve; None if there is none, or only from peers that have to wait.

        `consensus_only` leaves gossip and sync for later.
        """
        now = self._clock_seconds()
        for message_class, queues_by_peer in self._queues_by_class.items():
            if consensus_only and message_class is not MessageClass.CONSENSUS:
                continue
            for peer_id in queues_by_peer:
                if self._accounts.wait_seconds(peer_id, message_class, now) <= 0:
                    return self._pop_message(message_class, peer_id)
        return None

    async def receive(self) -> InboxMessage:
        """Return the next message to serve: best class first, in turn by peer, then in order of arrival."""
        # Also if a message waits, so that other tasks get their turn.
        await trio.lowlevel.checkpoint()
        while (next_message := self.receive_nowait()) is None:
            self._message_arrived = trio.Event()
            with trio.move_on_after(max(self._shortest_wait(), LEAST_WAIT_SECONDS)):
                await self._message_arrived.wait()
        return next_message

    async def __aiter__(self) -> AsyncIterator[InboxMessage]:
        while True:
            yield await self.receive()

    def charge(self, inbox_message: InboxMessage, seconds: float) -> None:
        """Charge a message's peer for its cost, in seconds of CPU: a peer that sends expensive ones waits."""
        self._accounts.charge(inbox_message.peer, class_of(inbox_message.kind), seconds, self._clock_seconds())

    def forget(self, peer: PeerId) -> None:
        """Drop all messages of a banned peer."""
        for message_class, queues_by_peer in self._queues_by_class.items():
            queue = queues_by_peer.pop(peer, None)
            if queue is not None:
                self._class_bytes[message_class] -= queue.queued_bytes
        self._let_write(peer)

    def _is_full(self, message_class: MessageClass, peer_id: PeerId) -> bool:
        queues_by_peer = self._queues_by_class[message_class]
        queue = queues_by_peer.get(peer_id)
        if queue is None:
            return False
        if len(queue.messages) >= PEER_MESSAGES[message_class] or queue.queued_bytes >= PEER_BYTES[message_class]:
            return True
        is_crowded = self._class_bytes[message_class] >= CLASS_BYTES and message_class is not MessageClass.CONSENSUS
        # A crowded class still accepts messages of peers below an even share.
        return is_crowded and queue.queued_bytes * len(queues_by_peer) > CLASS_BYTES

    def _pop_message(self, message_class: MessageClass, peer_id: PeerId) -> InboxMessage:
        queues_by_peer = self._queues_by_class[message_class]
        queue = queues_by_peer[peer_id]
        next_message = queue.messages.popleft()
        queue.queued_bytes -= len(next_message.payload)
        self._class_bytes[message_class] -= len(next_message.payload)
        if queue.messages:
            # Behind the other peers, so that all take turns.
            queues_by_peer.move_to_end(peer_id)
        else:
            del queues_by_peer[peer_id]
        if message_class is MessageClass.CONSENSUS:
            self._let_write(peer_id)
        return next_message

    def _let_write(self, peer_id: PeerId) -> None:
        writer_lot = self._waiting_writers.get(peer_id)
        if writer_lot is not None:
            writer_lot.unpark_all()
            del self._waiting_writers[peer_id]

    def _shortest_wait(self) -> float:
        """Return the seconds until the first message that waits for its peer's account may be served."""
        now = self._clock_seconds()
        shortest_wait = float("inf")
        for message_class, queues_by_peer in self._queues_by_class.items():
            for peer_id in queues_by_peer:
                shortest_wait = min(shortest_wait, self._accounts.wait_seconds(peer_id, message_class, now))
        return shortest_wait
