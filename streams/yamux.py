"""yamux: many byte streams over one connection, with hard bounds.

Pure, without I/O: bytes in, events and bytes out. It replaces the muxer of py-libp2p 0.8.1, which does not enforce flow
control and lets a peer raise its window to 16 MiB (docs/p2p.md). That muxer is the other end in our tests.

Invariants:

* At most `YamuxLimits.streams` streams live.
* Data beyond the granted window, an impossible frame, or too many streams is a `YamuxError`, after which the connection
  is closed.
* Only an incomplete 12-byte header and outgoing frames are buffered here.

Format: https://github.com/hashicorp/yamux/blob/master/spec.md
"""

import struct
from dataclasses import dataclass
from typing import Final

PROTOCOL: Final = "/yamux/1.0.0"
INITIAL_WINDOW_BYTES: Final = 256 * 1024
"""Fixed by the specification."""
_HEADER: Final = struct.Struct(">BBHII")
_DATA, _WINDOW_UPDATE, _PING, _GO_AWAY = range(4)
_SYN, _ACK, _FIN, _RST = 1, 2, 4, 8
_GO_AWAY_PROTOCOL_ERROR: Final = 1


class YamuxError(Exception):
    """The peer broke the protocol or a limit."""


@dataclass(frozen=True, slots=True)
class YamuxLimits:
    """The limits of one end. The defaults are those of connections between nodes."""

    streams: int = 8
    refused_streams: int = 64
    """Streams beyond the limit that are refused one by one. One more ends the connection."""
    window_bytes: int = 1024 * 1024
    """The window that this end grants per stream, `INITIAL_WINDOW_BYTES` or more: on a 100 ms link at 10 MB/s it hides
    the round trip."""
    update_bytes: int = 512 * 1024
    """The consumed bytes that are reported to the peer at once. The rest of the window hides the round trip."""
    send_window_bytes: int = 2**32 - 1
    """The most window that this end uses. A peer's updates could otherwise exceed the 32 bits of a window."""
    frame_data_bytes: int = 60 * 1024
    """The most data in one frame of ours, so that frame and header fit one Noise record."""
    outgoing_bytes: int = 64 * 1024
    """The most bytes of waiting answers to control frames. A peer that causes answers faster than it reads them is
    disconnected."""


PEER_LIMITS: Final = YamuxLimits()


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """The peer opened `stream`."""

    stream: int


@dataclass(frozen=True, slots=True)
class StreamData:
    """`data` arrived on `stream`; call `consume` after its use to give the window back."""

    stream: int
    data: bytes


@dataclass(frozen=True, slots=True)
class StreamClosed:
    """The peer ended or reset `stream`; this end has dropped it."""

    stream: int


@dataclass(frozen=True, slots=True)
class WindowOpened:
    """`stream` has window for more data."""

    stream: int


@dataclass(frozen=True, slots=True)
class PeerLeft:
    """The peer announced that it leaves."""


YamuxEvent = StreamOpened | StreamData | StreamClosed | WindowOpened | PeerLeft


@dataclass(slots=True)
class _Stream:
    send_window: int = INITIAL_WINDOW_BYTES
    receive_window: int = INITIAL_WINDOW_BYTES
    consumed_bytes: int = 0


class YamuxSession:
    """One end of a connection."""

    def __init__(self, *, initiator: bool, limits: YamuxLimits = PEER_LIMITS) -> None:
        assert limits.window_bytes >= INITIAL_WINDOW_BYTES
        self._limits = limits
        self._next_stream = 1 if initiator else 2
        self._open_streams: dict[int, _Stream] = {}
        self._read_buffer = b""
        self._outgoing_frames = bytearray()
        self._refused_count = 0
        self._stray_window = 0
        self._body_stream = 0
        self._body_flags = 0
        self._body_left = 0

    def open(self) -> int:
        """Open a stream, grant its full window, and return its number."""
        number = self._next_stream
        self._next_stream += 2
        self._grant_window(number, _SYN)
        return number

    def send_window(self, number: int) -> int:
        """Return the bytes that the peer accepts on a stream now. Raise `YamuxError` if the stream is closed."""
        stream = self._open_streams.get(number)
        if stream is None:
            raise YamuxError("stream is closed")
        return stream.send_window

    def data_frame(self, number: int, data: memoryview) -> tuple[bytes, int]:
        """Return a frame with as much of `data` as fits, and the number of bytes of `data` in it.

        Window and frame size limit it.
        """
        frame_data_bytes = min(len(data), self.send_window(number), self._limits.frame_data_bytes)
        if frame_data_bytes == 0:
            return b"", 0
        self._open_streams[number].send_window -= frame_data_bytes
        header = _HEADER.pack(0, _DATA, 0, number, frame_data_bytes)
        return b"".join((header, data[:frame_data_bytes])), frame_data_bytes

    def consume(self, number: int, consumed_bytes: int) -> None:
        """Free `consumed_bytes` of the window. The peer gets the update when `update_bytes` have gathered."""
        stream = self._open_streams.get(number)
        if stream is None:
            return
        stream.consumed_bytes += consumed_bytes
        if stream.consumed_bytes >= self._limits.update_bytes:
            stream.receive_window += stream.consumed_bytes
            self._queue_frame(_WINDOW_UPDATE, 0, number, stream.consumed_bytes)
            stream.consumed_bytes = 0

    def close(self, number: int) -> None:
        """End a stream, after the data that was sent on it. Data from the peer is dropped from now on."""
        if self._drop(number):
            self._queue_frame(_WINDOW_UPDATE, _FIN, number, 0)

    def reset(self, number: int) -> None:
        """Drop a stream at once, at both ends."""
        if self._drop(number):
            self._queue_frame(_WINDOW_UPDATE, _RST, number, 0)

    def go_away(self, *, protocol_error: bool) -> None:
        """Announce to the peer that this connection ends."""
        self._queue_frame(_GO_AWAY, 0, 0, _GO_AWAY_PROTOCOL_ERROR if protocol_error else 0)

    def take_outgoing(self) -> bytes:
        """Return and clear the control frames to write."""
        outgoing_bytes = bytes(self._outgoing_frames)
        self._outgoing_frames.clear()
        return outgoing_bytes

    @property
    def has_outgoing(self) -> bool:
        """True if control frames wait to be written."""
        return bool(self._outgoing_frames)

    def feed(self, data: bytes) -> list[YamuxEvent]:
        """Return the events in `data`. Raise `YamuxError` if the peer breaks the protocol or a limit."""
        data = self._read_buffer + data
        events: list[YamuxEvent] = []
        read_position = 0
        while True:
            if self._body_left:
                chunk = data[read_position : read_position + self._body_left]
                read_position += len(chunk)
                self._on_body(chunk, events)
                if self._body_left:
                    break
            elif len(data) - read_position >= _HEADER.size:
                header = _HEADER.unpack_from(data, read_position)
                read_position += _HEADER.size
                self._on_header(header, events)
            else:
                break
        self._read_buffer = data[read_position:]
        return events

    def _on_header(self, header: tuple[int, int, int, int, int], events: list[YamuxEvent]) -> None:
        version, frame_type, flags, number, length = header
        if version != 0 or frame_type > _GO_AWAY:
            raise YamuxError("not a yamux frame")
        if frame_type == _PING:
            if flags & _SYN:
                self._queue_frame(_PING, _ACK, 0, length)
            return
        if frame_type == _GO_AWAY:
            events.append(PeerLeft())
            return
        if flags & _SYN:
            self._on_open(number, events)
        if frame_type == _DATA:
            self._start_body(number, flags, length)
        elif (stream := self._open_streams.get(number)) is not None:
            stream.send_window = min(self._limits.send_window_bytes, stream.send_window + length)
            events.append(WindowOpened(number))
        if not self._body_left:
            self._on_flags(number, flags, events)

    def _on_open(self, number: int, events: list[YamuxEvent]) -> None:
        # yamux: the dialler opens odd streams, the listener even ones.
        if number == 0 or number % 2 == self._next_stream % 2 or number in self._open_streams:
            raise YamuxError("stream number that the peer cannot open")
        # The library has no such limit: it opens any number of streams.
        if len(self._open_streams) >= self._limits.streams:
            self._refused_count += 1
            if self._refused_count > self._limits.refused_streams:
                raise YamuxError("too many streams")
            self._expect_stray(INITIAL_WINDOW_BYTES)
            self._queue_frame(_WINDOW_UPDATE, _RST, number, 0)
            return
        self._grant_window(number, _ACK)
        events.append(StreamOpened(number))

    def _start_body(self, number: int, flags: int, length: int) -> None:
        """Charge announced data to the window before any of it is accepted."""
        stream = self._open_streams.get(number)
        if stream is None:
            # Data may be under way on streams that this end has just dropped, but no more than their windows.
            self._stray_window -= length
            if self._stray_window < 0:
                raise YamuxError("data on streams that do not exist")
        else:
            # The library only warns here and goes on buffering: one peer could fill the memory.
            if length > stream.receive_window:
                raise YamuxError("receive window exceeded")
            stream.receive_window -= length
        self._body_stream = number
        self._body_flags = flags
        self._body_left = length

    def _on_body(self, chunk: bytes, events: list[YamuxEvent]) -> None:
        self._body_left -= len(chunk)
        if chunk and self._body_stream in self._open_streams:
            events.append(StreamData(self._body_stream, chunk))
        if not self._body_left:
            self._on_flags(self._body_stream, self._body_flags, events)

    def _on_flags(self, number: int, flags: int, events: list[YamuxEvent]) -> None:
        """Act on FIN and RST. A half-closed stream is of no use here: FIN ends it like RST, and the peer is told."""
        if not flags & (_FIN | _RST) or not self._drop(number):
            return
        if flags & _FIN:
            self._queue_frame(_WINDOW_UPDATE, _FIN, number, 0)
        events.append(StreamClosed(number))

    def _grant_window(self, number: int, flags: int) -> None:
        self._open_streams[number] = _Stream(receive_window=self._limits.window_bytes)
        self._queue_frame(_WINDOW_UPDATE, flags, number, self._limits.window_bytes - INITIAL_WINDOW_BYTES)

    def _drop(self, number: int) -> bool:
        """Forget a stream. Return False if it is not open."""
        stream = self._open_streams.pop(number, None)
        if stream is not None:
            self._expect_stray(stream.receive_window)
        return stream is not None

    def _expect_stray(self, window_bytes: int) -> None:
        """Allow data on a dropped stream, as much as its window."""
        # The peer has at most `streams` streams open, so no more windows than these are in use.
        self._stray_window = min(self._limits.streams * self._limits.window_bytes, self._stray_window + window_bytes)

    def _queue_frame(self, frame_type: int, flags: int, number: int, length: int) -> None:
        self._outgoing_frames += _HEADER.pack(0, frame_type, flags, number, length)
        # Each ping demands an answer. A peer that never reads would make this node store them all.
        if len(self._outgoing_frames) > self._limits.outgoing_bytes:
            raise YamuxError("peer requests answers faster than it reads")
