"""One connection to one peer: TCP, Noise, yamux, and the one long-lived stream of frames.

Invariants:

* Only `receive` reads from the socket, so a caller that stops calling it slows the peer down through TCP.
* One frame, one record and `yamux.PEER_LIMITS.streams` negotiations bound the memory for the peer's data.
* Streams for other protocols are answered "na" and reach no code of ours.
* Every end of a connection is `ChannelClosed`, `FrameError` or `YamuxError`.
"""

from collections import deque
from time import thread_time
from typing import Final

import trio

from node.p2p.channel import BufferedTcp, ChannelClosed, SecureChannel
from node.p2p.frames import FrameReader
from node.p2p.hardening import NOISE, NoiseUpgrade
from node.p2p.identity import PeerId
from node.p2p.multistream import Initiator, MultistreamError, Responder
from node.p2p.work import RECORD_SECONDS, ReadingAccounts
from streams import yamux

HANDSHAKE_CAP_BYTES: Final = 16 * 1024
"""The most bytes from a stranger before Noise has authenticated it. An honest handshake takes about 500 bytes."""
PIECE_BYTES: Final = 8 * 1024
"""The bytes of a record between two payments, 2 ms at most. A whole record has room for 5,459 window updates, which
took 10 ms."""
PIECE_SECONDS_MAX: Final = 0.005
"""The most that a piece is charged: a garbage collection that falls into it is not the peer's fault."""
TURN_SECONDS: Final = 0.001
GREETING_SECONDS: Final = 0.001
"""The CPU seconds for which a new connection is charged without waiting. An honest hello takes a fourth of it. A
validator has no account of its own before its hello, and must not wait for the debt of strangers."""
WINDOW_TIMEOUT_SECONDS: Final = 10.0
"""A peer that reads nothing for this time is treated as disconnected."""


class ProtocolRefused(Exception):
    """The peer does not speak our protocol: it is on another chain, or has another version."""


class Connection:
    """An encrypted connection with an authenticated peer, and its stream of frames."""

    def __init__(
        self,
        channel: SecureChannel,
        peer_id: PeerId,
        protocol: str,
        *,
        initiator: bool,
        host: str,
        accounts: ReadingAccounts,
    ) -> None:
        """Create it; `host` (the peer's address) and `peer_id` determine which of `accounts` pays for its data."""
        self.peer_id = peer_id
        self.initiator = initiator
        self._channel = channel
        self._protocol = protocol
        self._yamux_session = yamux.YamuxSession(initiator=initiator)
        self._frame_reader = FrameReader()
        self._frame_bodies: deque[bytes] = deque()
        self._negotiations: dict[int, Responder | Initiator] = {}
        self._frames_stream: int | None = None
        self._reply_bytes = bytearray()
        self._window_opened = trio.Event()
        self._host = host
        self._reading_accounts = accounts
        self._greeting_seconds = GREETING_SECONDS
        self.received_bytes = 0
        self.mid_frame = False

    async def establish(self) -> None:
        """Agree on the stream. Raise `ProtocolRefused`, or the errors that end a connection."""
        if self.initiator:
            self._negotiate(self._yamux_session.open(), Initiator(self._protocol))
        while self._frames_stream is None:
            await self._read_record()

    async def receive(self) -> list[bytes]:
        """Return the next frame bodies, at least one."""
        while not self._frame_bodies:
            await self._read_record()
        bodies = list(self._frame_bodies)
        self._frame_bodies.clear()
        return bodies

    async def send(self, data: bytes) -> None:
        """Write an encoded frame as the peer's window allows. `mid_frame` stays true if it is interrupted."""
        if self._frames_stream is None:
            raise ChannelClosed("no stream")
        # Without a `finally`: after an interruption the peer would read a goodbye as the rest of this frame.
        self.mid_frame = True
        view = memoryview(data)
        while view:
            frames = bytearray()
            # Taken before the attempt, so that an update between the attempt and the wait is not missed.
            window_opened = self._window_opened
            while view:
                frame, taken_bytes = self._yamux_session.data_frame(self._frames_stream, view)
                if not taken_bytes:
                    break
                frames += frame
                view = view[taken_bytes:]
            if frames:
                await self._channel.write(bytes(frames))
            else:
                await self._wait_for_window(window_opened)
        self.mid_frame = False

    async def _wait_for_window(self, window_opened: trio.Event) -> None:
        with trio.move_on_after(WINDOW_TIMEOUT_SECONDS) as scope:
            await window_opened.wait()
        if scope.cancelled_caught:
            raise ChannelClosed("peer does not read")

    async def close(self) -> None:
        """Close the socket. Data that the peer has not read yet may be lost."""
        await self._channel.close()

    async def _read_record(self) -> None:
        """Write waiting data, read one record, and act on it."""
        # First, because the peer may wait for these frames before it sends anything.
        await self._write_waiting()
        # A new or second connection waits for the debt of its address first.
        await self._pause_reading(
            self._reading_accounts.wait(self._host, self.peer_id, self._reading_accounts.seconds())
        )
        record_bytes = await self._channel.some()
        await self._pay_seconds(RECORD_SECONDS)
        self.received_bytes += len(record_bytes)
        for start in range(0, len(record_bytes), PIECE_BYTES):
            begun_at = thread_time()
            for event in self._yamux_session.feed(record_bytes[start : start + PIECE_BYTES]):
                self._on_event(event)
            await self._pay_seconds(min(thread_time() - begun_at, PIECE_SECONDS_MAX))
        await self._write_waiting()

    async def _pay_seconds(self, seconds: float) -> None:
        """Charge the peer's account, and pause until the debt is paid; the connection is not read meanwhile."""
        owed_seconds = self._reading_accounts.spend(self._host, self.peer_id, seconds, self._reading_accounts.seconds())
        self._greeting_seconds = max(0.0, self._greeting_seconds - seconds)
        if owed_seconds > 0 or seconds > TURN_SECONDS:
            await self._pause_reading(owed_seconds)

    async def _pause_reading(self, seconds: float) -> None:
        """Wait, or only let other tasks run: 64 KiB of a socket hold 3,000 records, which were read in one turn."""
        await trio.sleep(0.0 if self._greeting_seconds else seconds)

    async def _write_waiting(self) -> None:
        if self._yamux_session.has_outgoing or self._reply_bytes:
            waiting_bytes = self._yamux_session.take_outgoing() + bytes(self._reply_bytes)
            self._reply_bytes.clear()
            await self._channel.write(waiting_bytes)

    def _on_event(self, event: yamux.YamuxEvent) -> None:
        match event:
            case yamux.StreamData(number, data):
                self._on_stream_data(number, data)
            case yamux.WindowOpened(number):
                if number == self._frames_stream:
                    self._window_opened.set()
                    self._window_opened = trio.Event()
            case yamux.StreamOpened(number):
                # Any other protocol is answered "na": three bytes to the library's pubsub end its process.
                protocols = () if self.initiator else (self._protocol,)
                self._negotiate(number, Responder(protocols))
            case yamux.StreamClosed(number):
                self._negotiations.pop(number, None)
                if number == self._frames_stream or (self.initiator and self._frames_stream is None):
                    raise ChannelClosed("stream closed by peer")
            case yamux.PeerLeft():
                raise ChannelClosed("peer goes away")

    def _on_stream_data(self, number: int, data: bytes) -> None:
        if number == self._frames_stream:
            self._frame_bodies.extend(self._frame_reader.feed(data))
        elif number in self._negotiations:
            self._on_negotiation(number, data)
        self._yamux_session.consume(number, len(data))

    def _negotiate(self, number: int, negotiator: Responder | Initiator) -> None:
        self._negotiations[number] = negotiator
        self._queue_reply(number, negotiator.opening)

    def _on_negotiation(self, number: int, data: bytes) -> None:
        negotiator = self._negotiations[number]
        try:
            self._queue_reply(number, negotiator.feed(data))
        except MultistreamError as error:
            if isinstance(negotiator, Initiator):
                raise ProtocolRefused(str(error)) from error
            del self._negotiations[number]
            self._yamux_session.reset(number)
            return
        if negotiator.selected is not None:
            del self._negotiations[number]
            self._adopt_stream(number, negotiator.leftover)

    def _adopt_stream(self, number: int, leftover_bytes: bytes) -> None:
        """Take the first stream that agrees on our protocol for the frames, and refuse a second one."""
        if self._frames_stream is not None:
            self._yamux_session.reset(number)
            return
        self._frames_stream = number
        self._frame_bodies.extend(self._frame_reader.feed(leftover_bytes))

    def _queue_reply(self, number: int, reply: bytes) -> None:
        if reply:
            frame, _ = self._yamux_session.data_frame(number, memoryview(reply))
            self._reply_bytes += self._yamux_session.take_outgoing() + frame


async def connect_outbound(
    stream: trio.SocketStream,
    noise: NoiseUpgrade,
    expected_peer_id: PeerId,
    protocol: str,
    accounts: ReadingAccounts,
) -> Connection:
    """Upgrade a dialled socket. Raise `ProtocolRefused`, `HandshakeRefused`, `MultistreamError`, `ChannelClosed`."""
    tcp = BufferedTcp(stream, HANDSHAKE_CAP_BYTES)
    await _negotiate_protocol(tcp, Initiator(NOISE))
    channel = await noise.outbound(tcp, expected_peer_id)
    await _negotiate_protocol(channel, Initiator(yamux.PROTOCOL))
    connection = Connection(channel, expected_peer_id, protocol, initiator=True, host=_host_of(tcp), accounts=accounts)
    await connection.establish()
    return connection


async def connect_inbound(
    stream: trio.SocketStream, noise: NoiseUpgrade, protocol: str, accounts: ReadingAccounts
) -> Connection:
    """Upgrade an accepted socket; the result's `peer_id` is authenticated. Raise as `connect_outbound` does."""
    tcp = BufferedTcp(stream, HANDSHAKE_CAP_BYTES)
    await _negotiate_protocol(tcp, Responder((NOISE,)))
    channel, peer_id = await noise.inbound(tcp)
    await _negotiate_protocol(channel, Responder((yamux.PROTOCOL,)))
    connection = Connection(channel, peer_id, protocol, initiator=False, host=_host_of(tcp), accounts=accounts)
    await connection.establish()
    return connection


async def _negotiate_protocol(byte_channel: BufferedTcp | SecureChannel, negotiator: Initiator | Responder) -> None:
    """Run one negotiation to its end, and put back the bytes after it."""
    await byte_channel.write(negotiator.opening)
    while negotiator.selected is None:
        reply = negotiator.feed(await byte_channel.some())
        if reply:
            await byte_channel.write(reply)
    byte_channel.unread(negotiator.leftover)


def _host_of(tcp: BufferedTcp) -> str:
    remote_address = tcp.get_remote_address()
    if remote_address is None:
        raise ChannelClosed("connection lost")
    return remote_address[0]
