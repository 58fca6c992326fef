"""What peers have sent and the node has not served yet: one bounded queue, consensus before gossip before sync.

What always holds: every class is bounded in messages and bytes. A full consensus class makes the reader of that
peer wait (and so pushes back on the peer); full gossip and sync classes drop and count, so that consensus never stands
behind them on the same connection.
"""

from collections import deque
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import trio

from node.p2p.frames import FrameKind, MessageClass, class_of
from node.p2p.identity import PeerId


class InboxMessage(NamedTuple):
    """One message from a peer."""

    peer: PeerId
    kind: FrameKind
    payload: bytes


CLASS_MESSAGES: Final = {MessageClass.CONSENSUS: 4096, MessageClass.GOSSIP: 16_384, MessageClass.SYNC: 256}
CLASS_BYTES: Final = {
    MessageClass.CONSENSUS: 32 * 1024 * 1024,
    MessageClass.GOSSIP: 32 * 1024 * 1024,
    MessageClass.SYNC: 32 * 1024 * 1024,
}


class Inbox:
    """Many writers (one per peer), one reader."""

    def __init__(self) -> None:
        self._queues: dict[MessageClass, deque[InboxMessage]] = {
            message_class: deque() for message_class in CLASS_MESSAGES
        }
        self._bytes = dict.fromkeys(CLASS_MESSAGES, 0)
        self._arrived = trio.Event()
        self._writers = trio.lowlevel.ParkingLot()
        self.dropped = dict.fromkeys(CLASS_MESSAGES, 0)

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    async def put(self, message: InboxMessage) -> None:
        """Queue a message; waits when consensus is full, drops when its class may be dropped."""
        message_class = class_of(message.kind)
        while self._is_full(message_class):
            if message_class is not MessageClass.CONSENSUS:
                self.dropped[message_class] += 1
                return
            await self._writers.park()
        self._queues[message_class].append(message)
        self._bytes[message_class] += len(message.payload)
        self._arrived.set()

    def _is_full(self, message_class: MessageClass) -> bool:
        return (
            len(self._queues[message_class]) >= CLASS_MESSAGES[message_class]
            or self._bytes[message_class] >= CLASS_BYTES[message_class]
        )

    def receive_nowait(self) -> InboxMessage | None:
        """The next message to serve, or None."""
        for message_class, queue in self._queues.items():
            if queue:
                message = queue.popleft()
                self._bytes[message_class] -= len(message.payload)
                if message_class is MessageClass.CONSENSUS:
                    self._writers.unpark()
                return message
        return None

    async def receive(self) -> InboxMessage:
        """The next message to serve: best class first, in order of arrival within a class."""
        await trio.lowlevel.checkpoint()
        while True:
            message = self.receive_nowait()
            if message is not None:
                return message
            self._arrived = trio.Event()
            await self._arrived.wait()

    async def __aiter__(self) -> AsyncIterator[InboxMessage]:
        while True:
            yield await self.receive()
