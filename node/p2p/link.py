"""The life of an established connection: frames into the inbox, and the peer's outbox out, once a tick.

Invariants:

* One frame carries all queued messages.
* A peer over its rate is not read until it is below it again.
* A peer that is silent for `SILENCE_SECONDS` in spite of pings, or reads nothing, is disconnected.
* Every fault of the peer ends as `LinkEnded` with its penalty. No exception of our own is caught here.
"""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import trio

from node.p2p.addresses import Address
from node.p2p.channel import ChannelClosed
from node.p2p.connection import Connection
from node.p2p.frames import (
    TRANSPORT_KINDS,
    Frame,
    FrameError,
    FrameKind,
    MessageClass,
    class_of,
    decode_frame,
    encode_frame,
)
from node.p2p.hello import GoodbyeReason, Hello, Role, decode_reason
from node.p2p.identity import PeerId
from node.p2p.inbox import Inbox, InboxMessage
from node.p2p.meter import RateLimits, RateMeter, TokenBucket
from node.p2p.outbox import Outbox
from streams.yamux import YamuxError

TICK_SECONDS: Final = 0.005
"""The least time between two frames to one peer: messages queued meanwhile share the next one."""
PING_SECONDS: Final = 5.0
SILENCE_SECONDS: Final = 15.0
WRITE_SECONDS: Final = 15.0
GOODBYE_SECONDS: Final = 0.5
GARBAGE_BAN_SECONDS: Final = 10.0
UNKNOWN_KIND_BAN_SECONDS: Final = 300.0
UNKNOWN_KINDS_PER_MINUTE: Final = 10
PATIENCE_SECONDS: Final = 4.0
"""The time for which a peer may stay unread for its consensus messages alone. In a large sparse network an honest peer
sends 3,000 messages after this node halted for ten seconds: that is 3.5 s."""
PATIENCE_PER_SECOND: Final = 0.1
FLOOD_BAN_SECONDS: Final = 300.0
_NONCE_BYTES: Final = 8


class LinkEnded(Exception):
    """The connection is over. `ban_seconds` is the peer's penalty."""

    def __init__(self, end_reason: str, ban_seconds: float = 0.0, reason: GoodbyeReason | None = None) -> None:
        super().__init__(end_reason)
        self.reason = end_reason
        self.ban_seconds = ban_seconds
        self.goodbye_reason = reason


@dataclass(eq=False, slots=True)
class Link:
    """A connected peer: its connection, its queue, its meters."""

    connection: Connection
    hello: Hello
    role: Role
    host: str
    outbox: Outbox
    rates: RateLimits
    connected_at: float
    messages_queued: trio.Event = field(default_factory=trio.Event)
    cancel_scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    closing_reason: LinkEnded | None = None
    replaces: "Link | None" = None
    last_sent: float = 0.0
    pinged_at: float = 0.0
    sent_bytes: int = 0
    rtt_seconds: float | None = None
    claimed_addresses: list[Address] = field(default_factory=list)
    """The addresses at which the peer says that it is reachable."""
    _ping_nonce: bytes = b""

    @property
    def peer_id(self) -> PeerId:
        """The id of the peer at the other end."""
        return self.connection.peer_id

    def push(self, kind: FrameKind, payload: bytes) -> bool:
        """Queue a message for the next frame."""
        is_queued = self.outbox.push(kind, payload)
        if is_queued:
            self.messages_queued.set()
        return is_queued

    def close(self, link_end: LinkEnded) -> None:
        """End this link from outside."""
        if self.closing_reason is None:
            self.closing_reason = link_end
            self.cancel_scope.cancel()

    def ping(self, now: float) -> None:
        """Send a ping, so that the peer receives something; it measures the round trip."""
        self._ping_nonce = os.urandom(_NONCE_BYTES)
        self.pinged_at = now
        self.push(FrameKind.PING, self._ping_nonce)

    def on_pong(self, nonce: bytes, now: float) -> None:
        """Record the round trip; a pong without a matching ping is ignored."""
        if self._ping_nonce and nonce == self._ping_nonce:
            self._ping_nonce = b""
            self.rtt_seconds = now - self.pinged_at


async def run_link(link: Link, inbox: Inbox, on_peers: Callable[[Link, bytes], None]) -> LinkEnded:
    """Serve `link` until its end, and return the reason. No fault of a peer raises an exception."""
    ended = LinkEnded("closed")

    async def until_end(serving: Awaitable[None]) -> None:
        nonlocal ended
        try:
            await serving
        except LinkEnded as error:
            ended = error
        except (ChannelClosed, trio.TooSlowError) as error:
            ended = LinkEnded(str(error) or "timed out")
        except (FrameError, YamuxError) as error:
            ended = LinkEnded(str(error), GARBAGE_BAN_SECONDS, GoodbyeReason.MISBEHAVIOUR)
        # The end of reading or of writing ends the link.
        nursery.cancel_scope.cancel()

    with link.cancel_scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(until_end, _read_frames(link, inbox, on_peers))
            nursery.start_soon(until_end, _write_frames(link))
    return link.closing_reason or ended


async def _read_frames(link: Link, inbox: Inbox, on_peers: Callable[[Link, bytes], None]) -> None:
    now = trio.current_time()
    meter = RateMeter(link.rates, now)
    unknown_kinds = TokenBucket(UNKNOWN_KINDS_PER_MINUTE / 60, UNKNOWN_KINDS_PER_MINUTE, now)
    patience = TokenBucket(PATIENCE_PER_SECOND, PATIENCE_SECONDS, now)
    while True:
        with trio.fail_after(SILENCE_SECONDS):
            bodies = await link.connection.receive()
        for body in bodies:
            frame = decode_frame(body)
            now = trio.current_time()
            # A newer peer sends some kinds that this version does not know. A peer that sends mostly those is broken.
            if frame.unknown_kinds and unknown_kinds.spend(frame.unknown_kinds, now) > 0:
                raise LinkEnded(
                    "too many messages of unknown kinds", UNKNOWN_KIND_BAN_SECONDS, GoodbyeReason.MISBEHAVIOUR
                )
            await _deliver_messages(link, frame, inbox, on_peers)
            message_count = len(frame.messages) + frame.unknown_kinds
            consensus_count = sum(class_of(kind) <= MessageClass.CONSENSUS for kind, _ in frame.messages)
            wait_cheap = meter.spend_consensus(consensus_count, now)
            if wait_cheap and patience.spend(wait_cheap, now) > 0:
                raise LinkEnded("far too many consensus messages", FLOOD_BAN_SECONDS, GoodbyeReason.MISBEHAVIOUR)
            wait_seconds = max(wait_cheap, meter.spend(len(body), message_count, now))
            # A flood is left unread, not answered: TCP holds the sender back, and others are served meanwhile.
            if wait_seconds > 0:
                await trio.sleep(wait_seconds)


async def _deliver_messages(link: Link, frame: Frame, inbox: Inbox, on_peers: Callable[[Link, bytes], None]) -> None:
    for kind, payload in frame.messages:
        if kind not in TRANSPORT_KINDS:
            await inbox.put(InboxMessage(link.peer_id, kind, payload))
        elif kind is FrameKind.PING:
            if len(payload) != _NONCE_BYTES:  # a pong is as long as its ping: a request of 64 KiB would send 64 KiB
                raise FrameError("malformed ping")
            link.push(FrameKind.PONG, payload)
        elif kind is FrameKind.PONG:
            link.on_pong(payload, trio.current_time())
        elif kind is FrameKind.PEERS:
            on_peers(link, payload)
        elif kind is FrameKind.GOODBYE:
            raise LinkEnded(f"peer left: {decode_reason(payload).name}")
        else:
            raise FrameError(f"{kind.name} out of place")


async def _write_frames(link: Link) -> None:
    """Send at once if the last frame is a tick ago, else at the end of the tick."""
    while True:
        await link.messages_queued.wait()
        # A frame costs nearly the same CPU with one message or with fifty, so those of one tick share it.
        delay_seconds = link.last_sent + TICK_SECONDS - trio.current_time()
        if delay_seconds > 0:
            await trio.sleep(delay_seconds)
        now = trio.current_time()
        messages = link.outbox.take(now)
        link.last_sent = now
        # With messages held back by their rate, the event stays set and the next tick tries again.
        if not len(link.outbox):
            link.messages_queued = trio.Event()
        if messages:
            frame_bytes = encode_frame(messages)
            with trio.fail_after(WRITE_SECONDS):
                await link.connection.send(frame_bytes)
            link.sent_bytes += len(frame_bytes)


async def say_goodbye(connection: Connection, reason: GoodbyeReason) -> None:
    """Send the peer the reason, if it still reads, and close."""
    with trio.move_on_after(GOODBYE_SECONDS) as scope:
        # Shielded: the goodbye is sent although its task is being cancelled.
        scope.shield = True
        try:
            # In the middle of a frame the peer would read a goodbye as the frame's rest.
            if not connection.mid_frame:
                await connection.send(encode_frame([(FrameKind.GOODBYE, bytes([reason]))]))
        except (ChannelClosed, YamuxError):
            pass
    await connection.close()
