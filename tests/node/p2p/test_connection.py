"""A connection against anything that an authenticated peer may write: it ends in one of three known ways or goes on."""

import struct
import time

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from node.p2p.channel import MAX_RECORD_PLAINTEXT_BYTES, ChannelClosed
from node.p2p.connection import (
    PIECE_SECONDS_MAX,
    READING_BURST_SECONDS,
    READING_SHARE,
    RECORDS_BURST,
    RECORDS_PER_SECOND,
    Connection,
    ProtocolRefused,
)
from node.p2p.frames import MAX_FRAME_BYTES, FrameError, FrameKind, encode_frame
from node.p2p.hello import Hello, Role, encode_hello
from node.p2p.multistream import encode_line
from node.p2p.yamux import MAX_STREAMS, YamuxError, YamuxEvent, YamuxSession
from p2p_hosts import GENESIS

PROTOCOL = "/ogpu/00010203/1"
GREETING = encode_line("/multistream/1.0.0")
HELLO = encode_frame([(FrameKind.HELLO, encode_hello(Hello(GENESIS, Role.FULL, 0, b"")))])

payloads = st.sampled_from(
    [
        GREETING,
        encode_line(PROTOCOL),
        GREETING + encode_line(PROTOCOL),
        GREETING + encode_line(PROTOCOL) + HELLO,
        encode_line("na"),
        encode_line("ls"),
        HELLO,
        HELLO[:7],
        b"\x02\xff\xff",
        b"",
    ]
) | st.binary(max_size=30)


@st.composite
def yamux_frames(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from([0, 0, 0, 1, 1, 2, 3]))
    flags = draw(st.sampled_from([0, 0, 0, 1, 1, 2, 4, 8, 3, 5, 9]))
    stream = draw(st.sampled_from([0, 1, 1, 1, 2, 3, 5]))
    body = draw(payloads) if kind == 0 else b""
    length = len(body) if kind == 0 else draw(st.sampled_from([0, 1, 100, 2**32 - 1]))
    return struct.pack(">BBHII", 0, kind, flags, stream, length) + body


class Script:
    """Stands in for the encrypted channel: plays what the peer writes, then the peer is gone."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self.written = 0

    async def some(self) -> bytes:
        await trio.lowlevel.checkpoint()
        if not self._pieces:
            raise ChannelClosed("end of script")
        return self._pieces.pop(0)

    async def write(self, data: bytes) -> None:
        self.written += len(data)

    async def close(self) -> None:
        self._pieces.clear()


async def play(pieces: list[bytes], *, initiator: bool) -> Connection:
    script = Script([piece for piece in pieces if piece])
    connection = Connection(script, "12D3KooWpeer", PROTOCOL, initiator=initiator)  # type: ignore[arg-type]
    try:
        await connection.establish()
        while True:
            await connection.receive()
            await connection.send(HELLO)
    except (ChannelClosed, FrameError, YamuxError):
        return connection
    except ProtocolRefused:
        assert initiator
        return connection


@given(st.lists(yamux_frames() | st.binary(max_size=20), max_size=25), st.booleans())
def test_any_script_ends_in_a_known_way(pieces: list[bytes], initiator: bool) -> None:
    connection = trio.run(lambda: play(list(pieces), initiator=initiator))
    assert len(connection._negotiations) <= MAX_STREAMS
    assert connection._frames.buffered_bytes <= MAX_FRAME_BYTES


def test_an_honest_script_is_understood() -> None:
    """The property above would also hold for a connection that refuses everything."""

    async def listen() -> list[bytes]:
        opening = struct.pack(">BBHII", 0, 1, 1, 1, 0)
        said = GREETING + encode_line(PROTOCOL) + HELLO
        script = Script([opening + struct.pack(">BBHII", 0, 0, 0, 1, len(said)) + said])
        connection = Connection(script, "12D3KooWpeer", PROTOCOL, initiator=False)  # type: ignore[arg-type]
        await connection.establish()
        return await connection.receive()

    assert trio.run(listen) == [HELLO[4:]]


class EndlessRecords:
    """A channel that brings a window update of twelve bytes at a time, and never waits."""

    def __init__(self) -> None:
        self.taken = 0

    async def some(self) -> bytes:
        self.taken += 1
        return struct.pack(">BBHII", 0, 1, 0, 2, 1)

    async def write(self, data: bytes) -> None:
        del data


@pytest.mark.trio
async def test_small_records_are_read_at_a_rate_and_others_have_their_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    channel = EndlessRecords()
    connection = Connection(channel, "peer", PROTOCOL, initiator=False)  # type: ignore[arg-type]  # what a channel does
    with trio.move_on_after(5.0):
        await connection.receive()
    assert channel.taken <= RECORDS_BURST + 5 * RECORDS_PER_SECOND + 1


class FullRecords:
    """A channel that brings as many window updates in a record as have room, and never waits."""

    def __init__(self) -> None:
        self.taken = 0

    async def some(self) -> bytes:
        self.taken += 1
        return struct.pack(">BBHII", 0, 1, 0, 2, 1) * (MAX_RECORD_PLAINTEXT_BYTES // 12)

    async def write(self, data: bytes) -> None:
        del data


@pytest.mark.trio
async def test_what_records_take_of_the_core_is_bounded_by_time_and_so_is_one_turn(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that each frame of the muxer moves by 2 us."""
    del autojump_clock
    spent = 0.0
    turns: list[float] = []

    def counted(self: YamuxSession, data: bytes) -> list[YamuxEvent]:
        nonlocal spent
        turns.append(len(data) / 12 * 2e-6)
        spent += turns[-1]
        assert spent <= READING_BURST_SECONDS + 20.0 * READING_SHARE + 0.002
        return feed(self, data)

    feed = YamuxSession.feed
    monkeypatch.setattr(YamuxSession, "feed", counted)
    monkeypatch.setattr("node.p2p.connection.thread_time", lambda: spent)
    connection = Connection(FullRecords(), "peer", PROTOCOL, initiator=False)  # type: ignore[arg-type]  # as above
    with trio.move_on_after(20.0):
        await connection.receive()
    assert max(turns) <= 0.002
    assert spent >= 20.0 * READING_SHARE


@pytest.mark.trio
async def test_a_peer_that_connects_anew_brings_little_more(autojump_clock: trio.testing.MockClock) -> None:
    """Twice a second is allowed for an address (`connects_per_second`); the burst of each was a fourth of the core."""
    begun, start = time.thread_time(), trio.current_time()
    for _ in range(20):
        with trio.move_on_after(0.5):
            await Connection(FullRecords(), "peer", "p", initiator=False).receive()  # type: ignore[arg-type]  # stands in for the channel
    spent, passed = time.thread_time() - begun, trio.current_time() - start
    charged = 20 * (READING_BURST_SECONDS + PIECE_SECONDS_MAX) + passed * READING_SHARE
    assert spent <= 2 * charged, "with what is not charged: connecting itself"
