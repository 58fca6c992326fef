"""One connection to one peer: TCP, Noise, yamux, and the one long-lived stream of frames.

Invariants:

* Only `receive` reads from the socket, so a caller that stops calling it slows the peer down through TCP.
* One frame, one record and `yamux.MAX_STREAMS` negotiations bound the memory for the peer's data.
* Streams for other protocols are answered "na" and reach no code of ours.
* Every end of a connection is `ChannelClosed`, `FrameError` or `YamuxError`.
"""

from collections import deque
from time import thread_time
from typing import Final

import trio

from node.p2p import yamux
from node.p2p.channel import BufferedTcp, ChannelClosed, SecureChannel
from node.p2p.frames import FrameReader
from node.p2p.hardening import NOISE, NoiseUpgrade
from node.p2p.identity import PeerId
from node.p2p.multistream import Initiator, MultistreamError, Responder
from node.p2p.work import RECORD_SECONDS, ReadingAccounts

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
        self._session = yamux.YamuxSession(initiator=initiator)
        self._frames = FrameReader()
        self._bodies: deque[bytes] = deque()
        self._negotiations: dict[int, Responder | Initiator] = {}
        self._stream: int | None = None
        self._replies = bytearray()
        self._window_opened = trio.Event()
        self._host = host
        self._accounts = accounts
        self._greeting = GREETING_SECONDS
        self.received_bytes = 0
        self.mid_frame = False

    async def establish(self) -> None:
        """Agree on the stream. Raise `ProtocolRefused`, or the errors that end a connection."""
        if self.initiator:
            self._negotiate(self._session.open(), Initiator(self._protocol))
        while self._stream is None:
            await self._pump()

    async def receive(self) -> list[bytes]:
        """Return the next frame bodies, at least one."""
        while not self._bodies:
            await self._pump()
        bodies = list(self._bodies)
        self._bodies.clear()
        return bodies

    async def send(self, data: bytes) -> None:
        """Write an encoded frame as the peer's window allows. `mid_frame` stays true if it is interrupted."""
        if self._stream is None:
            raise ChannelClosed("no stream")
        self.mid_frame = True
        view = memoryview(data)
        while view:
            batch = bytearray()
            # Taken before the attempt, so that an update between the attempt and the wait is not missed.
            opened = self._window_opened
            while view:
                frame, size = self._session.data_frame(self._stream, view)
                if not size:
                    break
                batch += frame
                view = view[size:]
            if batch:
                await self._channel.write(bytes(batch))
            else:
                await self._wait_for_window(opened)
        self.mid_frame = False

    async def _wait_for_window(self, opened: trio.Event) -> None:
        with trio.move_on_after(WINDOW_TIMEOUT_SECONDS) as scope:
            await opened.wait()
        if scope.cancelled_caught:
            raise ChannelClosed("peer does not read")

    async def close(self) -> None:
        """Close the socket. Data that the peer has not read yet may be lost."""
        await self._channel.close()

    async def _pump(self) -> None:
        """Write waiting data, read one record, and act on it."""
        # First, because the peer may wait for these frames before it sends anything.
        await self._flush()
        # A new or second connection waits for the debt of its address first.
        await self._pause(self._accounts.wait(self._host, self.peer_id, self._accounts.seconds()))
        data = await self._channel.some()
        await self._pay(RECORD_SECONDS)
        self.received_bytes += len(data)
        for start in range(0, len(data), PIECE_BYTES):
            begun = thread_time()
            for event in self._session.feed(data[start : start + PIECE_BYTES]):
                self._on_event(event)
            await self._pay(min(thread_time() - begun, PIECE_SECONDS_MAX))
        await self._flush()

    async def _pay(self, seconds: float) -> None:
        """Charge the peer's account, and pause until the debt is paid; the connection is not read meanwhile."""
        owed = self._accounts.spend(self._host, self.peer_id, seconds, self._accounts.seconds())
        self._greeting = max(0.0, self._greeting - seconds)
        if owed > 0 or seconds > TURN_SECONDS:
            await self._pause(owed)

    async def _pause(self, seconds: float) -> None:
        """Wait, or only let other tasks run: 64 KiB of a socket hold 3,000 records, which were read in one turn."""
        await trio.sleep(0.0 if self._greeting else seconds)

    async def _flush(self) -> None:
        if self._session.has_outgoing or self._replies:
            waiting = self._session.take_outgoing() + bytes(self._replies)
            self._replies.clear()
            await self._channel.write(waiting)

    def _on_event(self, event: yamux.YamuxEvent) -> None:
        match event:
            case yamux.StreamData(stream, data):
                self._on_data(stream, data)
            case yamux.WindowOpened(stream):
                if stream == self._stream:
                    self._window_opened.set()
                    self._window_opened = trio.Event()
            case yamux.StreamOpened(stream):
                # Any other protocol is answered "na": three bytes to the library's pubsub end its process.
                protocols = () if self.initiator else (self._protocol,)
                self._negotiate(stream, Responder(protocols))
            case yamux.StreamClosed(stream):
                self._negotiations.pop(stream, None)
                if stream == self._stream or (self.initiator and self._stream is None):
                    raise ChannelClosed("stream closed by peer")
            case yamux.PeerLeft():
                raise ChannelClosed("peer goes away")

    def _on_data(self, stream: int, data: bytes) -> None:
        if stream == self._stream:
            self._bodies.extend(self._frames.feed(data))
        elif stream in self._negotiations:
            self._on_negotiation(stream, data)
        self._session.consume(stream, len(data))

    def _negotiate(self, stream: int, side: Responder | Initiator) -> None:
        self._negotiations[stream] = side
        self._reply(stream, side.opening)

    def _on_negotiation(self, stream: int, data: bytes) -> None:
        side = self._negotiations[stream]
        try:
            self._reply(stream, side.feed(data))
        except MultistreamError as error:
            if isinstance(side, Initiator):
                raise ProtocolRefused(str(error)) from error
            del self._negotiations[stream]
            self._session.reset(stream)
            return
        if side.selected is not None:
            del self._negotiations[stream]
            self._adopt(stream, side.leftover)

    def _adopt(self, stream: int, leftover: bytes) -> None:
        """Take the first stream that agrees on our protocol for the frames, and refuse a second one."""
        if self._stream is not None:
            self._session.reset(stream)
            return
        self._stream = stream
        self._bodies.extend(self._frames.feed(leftover))

    def _reply(self, stream: int, data: bytes) -> None:
        if data:
            frame, _ = self._session.data_frame(stream, memoryview(data))
            self._replies += self._session.take_outgoing() + frame


async def connect_outbound(
    stream: trio.SocketStream, noise: NoiseUpgrade, expected: PeerId, protocol: str, accounts: ReadingAccounts
) -> Connection:
    """Upgrade a dialled socket. Raise `ProtocolRefused`, `HandshakeRefused`, `MultistreamError`, `ChannelClosed`."""
    tcp = BufferedTcp(stream, HANDSHAKE_CAP_BYTES)
    await _agree(tcp, Initiator(NOISE))
    channel = await noise.outbound(tcp, expected)
    await _agree(channel, Initiator(yamux.PROTOCOL))
    connection = Connection(channel, expected, protocol, initiator=True, host=_host_of(tcp), accounts=accounts)
    await connection.establish()
    return connection


async def connect_inbound(
    stream: trio.SocketStream, noise: NoiseUpgrade, protocol: str, accounts: ReadingAccounts
) -> Connection:
    """Upgrade an accepted socket; the result's `peer_id` is authenticated. Raise as `connect_outbound` does."""
    tcp = BufferedTcp(stream, HANDSHAKE_CAP_BYTES)
    await _agree(tcp, Responder((NOISE,)))
    channel, peer_id = await noise.inbound(tcp)
    await _agree(channel, Responder((yamux.PROTOCOL,)))
    connection = Connection(channel, peer_id, protocol, initiator=False, host=_host_of(tcp), accounts=accounts)
    await connection.establish()
    return connection


async def _agree(io: BufferedTcp | SecureChannel, side: Initiator | Responder) -> None:
    """Run one negotiation to its end, and put back the bytes after it."""
    await io.write(side.opening)
    while side.selected is None:
        reply = side.feed(await io.some())
        if reply:
            await io.write(reply)
    io.unread(side.leftover)


def _host_of(tcp: BufferedTcp) -> str:
    address = tcp.get_remote_address()
    if address is None:
        raise ChannelClosed("connection lost")
    return address[0]
