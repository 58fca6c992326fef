"""The muxer: two of ours talk, limits hold against any bytes. Against py-libp2p's own: test_interop.py."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.yamux import (
    INITIAL_WINDOW_BYTES,
    PEER_LIMITS,
    PeerLeft,
    StreamClosed,
    StreamData,
    StreamOpened,
    WindowOpened,
    YamuxError,
    YamuxLimits,
    YamuxSession,
)

WINDOW_BYTES, MAX_STREAMS, MAX_REFUSED_STREAMS = (
    PEER_LIMITS.window_bytes, PEER_LIMITS.streams, PEER_LIMITS.refused_streams
)  # fmt: skip

DATA, WINDOW_UPDATE, PING, GO_AWAY = range(4)
SYN, ACK, FIN, RST = 1, 2, 4, 8


def header(kind: int, flags: int, stream: int, length: int, version: int = 0) -> bytes:
    return struct.pack(">BBHII", version, kind, flags, stream, length)


def pair() -> tuple[YamuxSession, YamuxSession, int]:
    """Dialler, listener, and a stream that both know, with full windows."""
    dialler, listener = YamuxSession(initiator=True), YamuxSession(initiator=False)
    stream = dialler.open()
    assert listener.feed(dialler.take_outgoing()) == [StreamOpened(stream), WindowOpened(stream)]
    assert dialler.feed(listener.take_outgoing()) == [WindowOpened(stream)]
    return dialler, listener, stream


@given(st.binary(min_size=1, max_size=5000), st.integers(1, 100))
def test_bytes_arrive_in_order_in_any_slicing(data: bytes, step: int) -> None:
    dialler, listener, stream = pair()
    frame, size = dialler.data_frame(stream, memoryview(data))
    assert size == len(data)
    events = [event for start in range(0, len(frame), step) for event in listener.feed(frame[start : start + step])]
    assert b"".join(event.data for event in events if isinstance(event, StreamData)) == data


def test_the_window_stops_the_sender_and_consuming_opens_it() -> None:
    dialler, listener, stream = pair()
    sent = 0
    while True:
        frame, size = dialler.data_frame(stream, memoryview(bytes(100_000)))
        if not size:
            break
        listener.feed(frame)
        sent += size
    assert sent == WINDOW_BYTES
    listener.consume(stream, WINDOW_BYTES // 2 - 1)
    assert not listener.has_outgoing
    listener.consume(stream, 1)
    assert dialler.feed(listener.take_outgoing()) == [WindowOpened(stream)]
    assert dialler.data_frame(stream, memoryview(b"x"))[1] == 1


def test_a_sender_that_ignores_the_window_is_cut_off_before_it_is_believed() -> None:
    listener = YamuxSession(initiator=False)
    listener.feed(header(WINDOW_UPDATE, SYN, 1, 0))
    taken = 0
    with pytest.raises(YamuxError, match="window exceeded"):
        while taken < 260_000_000:
            listener.feed(header(DATA, 0, 1, 64_000) + bytes(64_000))
            taken += 64_000
    assert taken <= WINDOW_BYTES
    with pytest.raises(YamuxError, match="window exceeded"):
        pair()[1].feed(header(DATA, 0, 1, 2**32 - 1))


def test_streams_are_few() -> None:
    listener = YamuxSession(initiator=False)
    for number in range(MAX_STREAMS + MAX_REFUSED_STREAMS):
        listener.feed(header(WINDOW_UPDATE, SYN, 2 * number + 1, 0))
    assert len(listener._open_streams) == MAX_STREAMS
    with pytest.raises(YamuxError, match="too many streams"):
        listener.feed(header(WINDOW_UPDATE, SYN, 9999, 0))


def test_data_for_streams_that_do_not_exist_is_bounded() -> None:
    listener = YamuxSession(initiator=False)
    chunk = header(DATA, 0, 77, 60_000) + bytes(60_000)
    with pytest.raises(YamuxError, match="do not exist"):
        for _ in range(1000):
            assert listener.feed(chunk) == []


def test_pings_are_answered_but_not_without_end() -> None:
    listener = YamuxSession(initiator=False)
    listener.feed(header(PING, SYN, 0, 42))
    assert listener.take_outgoing() == header(PING, ACK, 0, 42)
    with pytest.raises(YamuxError, match="faster"):
        listener.feed(header(PING, SYN, 0, 1) * 10_000)


@pytest.mark.parametrize("flag", [FIN, RST])
@pytest.mark.parametrize("kind", [DATA, WINDOW_UPDATE])
def test_an_ended_stream_is_forgotten(flag: int, kind: int) -> None:
    dialler, listener, stream = pair()
    assert StreamClosed(stream) in listener.feed(header(kind, flag, stream, 0))
    assert listener._open_streams == {}
    with pytest.raises(YamuxError, match="closed"):
        listener.data_frame(stream, memoryview(b"x"))
    listener.consume(stream, 5)
    listener.reset(stream)
    assert listener.feed(dialler.data_frame(stream, memoryview(b"late"))[0]) == []


def test_the_end_of_a_stream_comes_after_its_last_data() -> None:
    _, listener, stream = pair()
    events = listener.feed(header(DATA, FIN, stream, 4) + b"last")
    assert events == [StreamData(stream, b"last"), StreamClosed(stream)]


def test_going_away() -> None:
    dialler, listener, _ = pair()
    dialler.go_away(protocol_error=True)
    assert listener.feed(dialler.take_outgoing()) == [PeerLeft()]


@pytest.mark.parametrize(
    "data",
    [
        header(DATA, 0, 1, 0, version=1),
        header(4, 0, 1, 0),
        header(WINDOW_UPDATE, SYN, 0, 0),
        header(WINDOW_UPDATE, SYN, 2, 0),
        header(WINDOW_UPDATE, SYN, 1, 0) * 2,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_frames_that_cannot_be(data: bytes) -> None:
    with pytest.raises(YamuxError):
        YamuxSession(initiator=False).feed(data)


@given(
    st.lists(
        st.binary(max_size=40)
        | st.builds(
            header, st.integers(0, 3), st.integers(0, 15), st.integers(0, 9), st.integers(0, 30) | st.just(2**32 - 1)
        ),
        max_size=30,
    )
)
def test_any_bytes(pieces: list[bytes]) -> None:
    listener = YamuxSession(initiator=False)
    try:
        for piece in pieces:
            listener.feed(piece)
    except YamuxError:
        return
    assert len(listener._open_streams) <= MAX_STREAMS
    assert len(listener._read_buffer) < 12
    assert all(0 <= stream.receive_window <= WINDOW_BYTES for stream in listener._open_streams.values())


def test_a_peer_that_grants_no_more_than_the_initial_window_gets_no_more() -> None:
    dialler = YamuxSession(initiator=True)
    stream = dialler.open()
    dialler.feed(header(WINDOW_UPDATE, ACK, stream, 0))
    sent = 0
    while size := dialler.data_frame(stream, memoryview(bytes(60_000)))[1]:
        sent += size
    assert sent == INITIAL_WINDOW_BYTES


def test_a_closed_stream_ends_after_its_data_and_takes_no_more() -> None:
    dialler, listener, stream = pair()
    frame, _ = dialler.data_frame(stream, memoryview(b"last"))
    dialler.close(stream)
    events = listener.feed(frame + dialler.take_outgoing())
    assert [event for event in events if not isinstance(event, WindowOpened)] == [
        StreamData(stream, b"last"), StreamClosed(stream)
    ]  # fmt: skip
    assert dialler.feed(listener.take_outgoing()) == []
    for session in (dialler, listener):
        with pytest.raises(YamuxError, match="closed"):
            session.send_window(stream)


def test_data_under_way_on_closed_streams_is_bounded_by_their_windows_however_many_they_were() -> None:
    dialler, listener = YamuxSession(initiator=True), YamuxSession(initiator=False)
    for _ in range(3 * MAX_STREAMS):
        stream = dialler.open()
        listener.feed(dialler.take_outgoing())
        dialler.feed(listener.take_outgoing())
        listener.close(stream)
        while (sent := dialler.data_frame(stream, memoryview(bytes(60_000))))[1]:
            assert listener.feed(sent[0]) == []
        dialler.feed(listener.take_outgoing())
    with pytest.raises(YamuxError, match="do not exist"):
        listener.feed(header(DATA, 0, 1, 1) + b"x")


def test_limits_are_those_of_the_session() -> None:
    limits = YamuxLimits(
        streams=2, refused_streams=0, window_bytes=INITIAL_WINDOW_BYTES, send_window_bytes=INITIAL_WINDOW_BYTES,
        frame_data_bytes=1_000, outgoing_bytes=240,
    )  # fmt: skip
    listener = YamuxSession(initiator=False, limits=limits)
    listener.feed(header(WINDOW_UPDATE, SYN, 1, 0) + header(WINDOW_UPDATE, SYN, 3, 2**32 - 1))
    assert [listener.send_window(number) for number in (1, 3)] == [INITIAL_WINDOW_BYTES] * 2
    assert listener.data_frame(1, memoryview(bytes(5_000)))[1] == 1_000
    listener.take_outgoing()
    for broken, says in (
        (header(DATA, SYN, 1, INITIAL_WINDOW_BYTES + 1), "window exceeded"),
        (header(PING, SYN, 0, 1) * 21, "faster"),
        (b"".join(header(WINDOW_UPDATE, SYN, number, 0) for number in (1, 3, 5)), "too many streams"),
    ):
        with pytest.raises(YamuxError, match=says):
            YamuxSession(initiator=False, limits=limits).feed(broken)
