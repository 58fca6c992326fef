"""The bounded queue of messages that wait for one peer, in order of class.

Pure: no socket, no clock (the time is an argument). Invariants: the bytes and messages of each class stay under the
named limits. Control and consensus are taken before gossip, gossip before sync. If a message does not fit, messages are
dropped, lowest class first, and counted. No call blocks.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from node.p2p.frames import (
    FRAME_OVERHEAD_BYTES,
    MAX_FRAME_BYTES,
    MAX_MESSAGES_PER_FRAME,
    MESSAGE_OVERHEAD_BYTES,
    FrameKind,
    MessageClass,
    class_of,
    max_payload_bytes,
)
from node.p2p.meter import BULK_SHARE, RateLimits, RateMeter

MAX_QUEUED_BYTES: Final = 8 * 1024 * 1024
"""The most bytes of payload that wait for one peer."""
MAX_QUEUED_MESSAGES: Final = 8192
CLASS_QUEUE_BYTES: Final[Mapping[MessageClass, int]] = {
    MessageClass.CONTROL: 64 * 1024,
    MessageClass.CONSENSUS: 6 * 1024 * 1024,
    MessageClass.GOSSIP: 4 * 1024 * 1024,
    MessageClass.SYNC: 6 * 1024 * 1024,
}
FRAME_TARGET_BYTES: Final = 256 * 1024
"""A frame ends here if more waits, so that a later consensus message is never behind megabytes."""
_METERED: Final = frozenset({MessageClass.GOSSIP, MessageClass.SYNC})


@dataclass(slots=True)
class _Queue:
    messages: deque[tuple[FrameKind, bytes]] = field(default_factory=deque)
    queued_bytes: int = 0


class Outbox:
    """The waiting messages: any task pushes, the writer takes one frame's worth."""

    def __init__(self, rates: RateLimits, now: float) -> None:
        """Create it; gossip and sync together use `BULK_SHARE` of `rates`: the peer never stops reading."""
        self._queues_by_class = {message_class: _Queue() for message_class in MessageClass}
        self._bulk_meter = RateMeter(rates, now, BULK_SHARE)
        self.dropped = dict.fromkeys(MessageClass, 0)

    def __len__(self) -> int:
        return sum(len(queue.messages) for queue in self._queues_by_class.values())

    @property
    def queued_bytes(self) -> int:
        """The bytes of waiting payload."""
        return sum(queue.queued_bytes for queue in self._queues_by_class.values())

    def push(self, kind: FrameKind, payload: bytes) -> bool:
        """Queue a message; False if it was dropped. Raise `ValueError` if the payload exceeds the kind's limit."""
        if len(payload) > max_payload_bytes(kind):
            raise ValueError(f"payload of {kind.name} too long: {len(payload)} bytes")
        message_class = class_of(kind)
        queue = self._queues_by_class[message_class]
        fits_class = queue.queued_bytes + len(payload) <= CLASS_QUEUE_BYTES[message_class]
        if not fits_class or not self._make_room(message_class, len(payload)):
            self.dropped[message_class] += 1
            return False
        queue.messages.append((kind, payload))
        queue.queued_bytes += len(payload)
        return True

    def _make_room(self, message_class: MessageClass, wanted_bytes: int) -> bool:
        """Drop the newest of lower classes until `wanted_bytes` more bytes fit; False if that is not enough."""
        for lower_class in sorted(MessageClass, reverse=True):
            while (
                lower_class > message_class
                and self._queues_by_class[lower_class].messages
                and not self._has_room(wanted_bytes)
            ):
                _, dropped_payload = self._queues_by_class[lower_class].messages.pop()
                self._queues_by_class[lower_class].queued_bytes -= len(dropped_payload)
                self.dropped[lower_class] += 1
        return self._has_room(wanted_bytes)

    def _has_room(self, wanted_bytes: int) -> bool:
        return self.queued_bytes + wanted_bytes <= MAX_QUEUED_BYTES and len(self) < MAX_QUEUED_MESSAGES

    def take(self, now: float) -> list[tuple[FrameKind, bytes]]:
        """Return the messages of the next frame, best class first; empty if none waits or all are held back."""
        taken_messages: list[tuple[FrameKind, bytes]] = []
        frame_bytes = FRAME_OVERHEAD_BYTES
        for message_class in MessageClass:
            queue = self._queues_by_class[message_class]
            while queue.messages and len(taken_messages) < MAX_MESSAGES_PER_FRAME:
                data = len(queue.messages[0][1]) + MESSAGE_OVERHEAD_BYTES
                # A message above the target still has to pass: it gets a frame of its own.
                frame_bytes_max = FRAME_TARGET_BYTES if taken_messages else MAX_FRAME_BYTES
                if frame_bytes + data > frame_bytes_max or not self._may_spend(message_class, data, now):
                    return taken_messages
                taken_messages.append(queue.messages.popleft())
                queue.queued_bytes -= data - MESSAGE_OVERHEAD_BYTES
                frame_bytes += data
        return taken_messages

    def _may_spend(self, message_class: MessageClass, data: int, now: float) -> bool:
        # Gossip and sync take half of the peer's limits at most, so votes never wait behind them.
        if message_class not in _METERED:
            return True
        if self._bulk_meter.is_in_debt(now):
            return False
        self._bulk_meter.spend(data, 1, now)
        return True
