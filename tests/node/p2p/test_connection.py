"""A connection against any bytes of an authenticated peer: it ends in one of three known ways or continues."""

import struct

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from node.p2p.channel import MAX_RECORD_PLAINTEXT_BYTES, ChannelClosed
from node.p2p.connection import (
    GREETING_SECONDS,
    PIECE_SECONDS_MAX,
    Connection,
    ProtocolRefused,
)
from node.p2p.frames import MAX_FRAME_BYTES, FrameError, FrameKind, encode_frame
from node.p2p.hello import Hello, Role, encode_hello
from node.p2p.inbox import nobody
from node.p2p.multistream import encode_line
from node.p2p.work import (
    READING_BURST_SECONDS,
    READING_SHARE,
    RECORD_SECONDS,
    STRANGERS_READING_BURST_SECONDS,
    STRANGERS_READING_SHARE,
    ReadingAccounts,
)
from p2p_hosts import GENESIS
from streams.yamux import PEER_LIMITS, YamuxError, YamuxEvent, YamuxSession

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
    """Replaces the encrypted channel: plays the peer's bytes, then ends."""

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


HOST = "203.0.113.7"
OPENING = struct.pack(">BBHII", 0, 1, 1, 1, 0)


def said(data: bytes) -> bytes:
    """A record of the stream that `OPENING` opened."""
    return struct.pack(">BBHII", 0, 0, 0, 1, len(data)) + data


def peer_at(channel: object, accounts: ReadingAccounts, host: str = HOST, peer: str = "peer") -> Connection:
    """Return the listener's end of a connection whose other end sends the bytes of `channel`."""
    return Connection(channel, peer, PROTOCOL, initiator=False, host=host, accounts=accounts)  # type: ignore[arg-type]  # stands in for the channel


async def play(pieces: list[bytes], *, initiator: bool) -> Connection:
    script = Script([piece for piece in pieces if piece])
    accounts = ReadingAccounts(nobody, 0.0)
    connection = Connection(
        script,  # type: ignore[arg-type]  # stands in for the channel
        "12D3KooWpeer",
        PROTOCOL,
        initiator=initiator,
        host=HOST,
        accounts=accounts,
    )
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
    assert len(connection._negotiations) <= PEER_LIMITS.streams
    assert connection._frame_reader.buffered_bytes <= MAX_FRAME_BYTES


def test_an_honest_script_is_understood() -> None:
    """A connection that refuses everything would also satisfy the property above."""

    async def listen() -> list[bytes]:
        opening = struct.pack(">BBHII", 0, 1, 1, 1, 0)
        said = GREETING + encode_line(PROTOCOL) + HELLO
        script = Script([opening + struct.pack(">BBHII", 0, 0, 0, 1, len(said)) + said])
        connection = peer_at(script, ReadingAccounts(nobody, 0.0))
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
    channel = EndlessRecords()
    with trio.move_on_after(5.0):
        await peer_at(channel, ReadingAccounts(nobody, 0.0)).receive()
    assert channel.taken * RECORD_SECONDS <= READING_BURST_SECONDS + 5 * READING_SHARE + GREETING_SECONDS


class FullRecords:
    """A channel with records full of window updates, without waits."""

    def __init__(self) -> None:
        self.taken = 0

    async def some(self) -> bytes:
        self.taken += 1
        return struct.pack(">BBHII", 0, 1, 0, 2, 1) * (MAX_RECORD_PLAINTEXT_BYTES // 12)

    async def write(self, data: bytes) -> None:
        del data


class CountedReading:
    """A clock that each frame of the muxer moves by 2 us, and the accounts of a listener that uses it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.accounts = ReadingAccounts(nobody, 0.0)
        self.spent = 0.0
        self.longest_turn = 0.0
        feed = YamuxSession.feed

        def counted(session: YamuxSession, data: bytes) -> list[YamuxEvent]:
            seconds = len(data) / 12 * 2e-6
            self.longest_turn = max(self.longest_turn, seconds)
            self.spent += seconds
            return feed(session, data)

        monkeypatch.setattr(YamuxSession, "feed", counted)
        monkeypatch.setattr("node.p2p.connection.thread_time", lambda: self.spent)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> CountedReading:
    return CountedReading(monkeypatch)


@pytest.mark.trio
async def test_what_records_take_of_the_core_is_bounded_by_time_and_so_is_one_turn(
    autojump_clock: trio.testing.MockClock, reading: CountedReading
) -> None:
    with trio.move_on_after(20.0):
        await peer_at(FullRecords(), reading.accounts).receive()
    assert reading.longest_turn <= 0.002
    assert 0.9 * 20.0 * READING_SHARE <= reading.spent <= READING_BURST_SECONDS + 20.0 * READING_SHARE + 0.004


@pytest.mark.trio
@pytest.mark.parametrize("connections", [1, 8, 64])
async def test_r1_an_address_costs_no_more_with_many_connections(
    autojump_clock: trio.testing.MockClock, reading: CountedReading, connections: int
) -> None:
    """Each connection had a share of its own, so 64 took four times the core of this node."""
    with trio.move_on_after(20.0):
        async with trio.open_nursery() as nursery:
            for number in range(connections):
                nursery.start_soon(peer_at(FullRecords(), reading.accounts, peer=f"name{number}").receive)
    at_once = connections * (GREETING_SECONDS + PIECE_SECONDS_MAX)
    assert reading.spent <= READING_BURST_SECONDS + 20.0 * READING_SHARE + at_once


@pytest.mark.trio
async def test_r1_who_connects_anew_brings_no_new_share(
    autojump_clock: trio.testing.MockClock, reading: CountedReading
) -> None:
    """An address may connect twice a second (`connects_per_second`), and each connection began with a burst."""
    for number in range(40):
        with trio.move_on_after(0.5):
            await peer_at(FullRecords(), reading.accounts, peer=f"name{number}").receive()
    assert reading.spent <= READING_BURST_SECONDS + 20.0 * READING_SHARE + 0.004


@pytest.mark.trio
async def test_r1_strangers_of_many_addresses_have_one_share(
    autojump_clock: trio.testing.MockClock, reading: CountedReading
) -> None:
    with trio.move_on_after(20.0):
        async with trio.open_nursery() as nursery:
            for number in range(32):
                nursery.start_soon(peer_at(FullRecords(), reading.accounts, host=f"203.0.113.{number}").receive)
    most = STRANGERS_READING_BURST_SECONDS + 20.0 * STRANGERS_READING_SHARE
    assert reading.spent <= most + 32 * (GREETING_SECONDS + PIECE_SECONDS_MAX)


@pytest.mark.trio
async def test_a_new_connection_says_hello_while_strangers_owe(autojump_clock: trio.testing.MockClock) -> None:
    """A validator gets an account of its own only after its hello is read, and gives up after five seconds."""
    accounts = ReadingAccounts(nobody, 0.0)
    accounts.spend(HOST, "stranger", 100.0, trio.current_time())
    connection = peer_at(Script([OPENING, said(GREETING + encode_line(PROTOCOL) + HELLO)]), accounts)
    begun = trio.current_time()
    await connection.establish()
    assert await connection.receive() == [HELLO[4:]]
    assert trio.current_time() == begun


@pytest.mark.trio
async def test_r1_nothing_is_read_of_a_connection_while_another_of_its_address_owes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    accounts = ReadingAccounts(nobody, 0.0)
    records = [OPENING, said(GREETING + encode_line(PROTOCOL) + HELLO), said(HELLO)]
    connection = peer_at(Script(records), accounts)
    await connection.establish()
    assert await connection.receive() == [HELLO[4:]]
    await connection._pay_seconds(GREETING_SECONDS)  # used up: from now on it waits
    owed = accounts.spend(HOST, "another name", 10.0, trio.current_time())
    with trio.move_on_after(owed / 2):
        await connection.receive()
    assert len(records) == 1, "still in the socket"
    assert await connection.receive() == [HELLO[4:]]
