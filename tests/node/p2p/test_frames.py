"""Frames: encoding and decoding agree, and any other bytes are a FrameError and nothing else."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.p2p.frames import (
    FRAME_VERSION,
    MAX_BLOCK_PAYLOAD_BYTES,
    MAX_FRAME_BYTES,
    MAX_MESSAGES_PER_FRAME,
    MAX_SMALL_PAYLOAD_BYTES,
    Frame,
    FrameError,
    FrameKind,
    FrameReader,
    MessageClass,
    class_of,
    decode_frame,
    encode_frame,
    max_payload_bytes,
)

messages = st.lists(st.tuples(st.sampled_from(FrameKind), st.binary(max_size=300)), max_size=20)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.binary() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 9), inner),
    max_leaves=12,
)


def body_of(value: object) -> bytes:
    packed: bytes = msgpack.packb(value)
    return packed


@given(messages)
def test_roundtrip(listed: list[tuple[FrameKind, bytes]]) -> None:
    frame = encode_frame(listed)
    assert FrameReader().feed(frame) == [frame[4:]]
    assert decode_frame(frame[4:]) == Frame(tuple(listed), 0)


def decodes_or_refuses(body: bytes) -> None:
    try:
        frame = decode_frame(body)
    except FrameError:
        return
    assert all(len(payload) <= max_payload_bytes(kind) for kind, payload in frame.messages)
    assert decode_frame(encode_frame(frame.messages)[4:]).messages == frame.messages


@given(st.binary(max_size=2000))
def test_any_bytes(body: bytes) -> None:
    decodes_or_refuses(body)


@given(plain)
def test_any_msgpack(value: object) -> None:
    decodes_or_refuses(body_of(value))


@given(plain, plain)
def test_any_msgpack_in_place_of_messages(version: object, value: object) -> None:
    decodes_or_refuses(body_of([version, value]))
    decodes_or_refuses(body_of([FRAME_VERSION, value]))
    decodes_or_refuses(body_of([FRAME_VERSION, [[value, b""], [16, value]]]))


@given(messages, st.integers(0, 400), st.integers(0, 255))
def test_one_byte_changed(listed: list[tuple[FrameKind, bytes]], where: int, byte: int) -> None:
    body = bytearray(encode_frame(listed)[4:])
    body[where % len(body)] = byte
    decodes_or_refuses(bytes(body))


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        [1],
        [2, []],
        [True, []],
        [1, [], []],
        [1, {}],
        [1, [[16]]],
        [1, [[16, "text"]]],
        [1, [[True, b""]]],
        [1, [[-1, b""]]],
        [1, [[256, b""]]],
        [1, [[16, b"", b""]]],
        [1, [[int(FrameKind.VOTE), bytes(MAX_SMALL_PAYLOAD_BYTES + 1)]]],
        [1, [[16, b""]] * (MAX_MESSAGES_PER_FRAME + 1)],
    ],
    ids=repr,
)
def test_refused(value: object) -> None:
    with pytest.raises(FrameError):
        decode_frame(body_of(value))


@pytest.mark.parametrize("nesting", [100, 100_000])
def test_deep_nesting_is_refused(nesting: int) -> None:
    with pytest.raises(FrameError):
        decode_frame(b"\x91" * nesting)


@pytest.mark.parametrize(
    "body", [b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc1", b""]
)
def test_lengths_that_would_allocate_are_refused(body: bytes) -> None:
    with pytest.raises(FrameError):
        decode_frame(body)


def test_unknown_kinds_are_counted_and_left_out() -> None:
    frame = decode_frame(body_of([1, [[200, b"new"], [int(FrameKind.VOTE), b"v"]]]))
    assert frame == Frame(((FrameKind.VOTE, b"v"),), 1)


def test_a_full_block_fits() -> None:
    block = bytes(MAX_BLOCK_PAYLOAD_BYTES)
    assert decode_frame(encode_frame([(FrameKind.BLOCK, block)])[4:]).messages == ((FrameKind.BLOCK, block),)


def test_our_own_excess_is_our_bug() -> None:
    with pytest.raises(ValueError, match="exceeds the limits"):
        encode_frame([(FrameKind.BLOCK, bytes(MAX_FRAME_BYTES))])
    with pytest.raises(ValueError, match="exceeds the limits"):
        encode_frame([(FrameKind.PING, b"")] * (MAX_MESSAGES_PER_FRAME + 1))


@given(st.lists(messages, max_size=5), st.lists(st.integers(1, 50), min_size=1))
def test_any_cut_of_the_stream_reads_the_same(frames: list[list[tuple[FrameKind, bytes]]], cuts: list[int]) -> None:
    encoded = [encode_frame(listed) for listed in frames]
    stream = b"".join(encoded)
    reader = FrameReader()
    bodies: list[bytes] = []
    step = 0
    while stream:
        size = cuts[step % len(cuts)]
        bodies += reader.feed(stream[:size])
        stream = stream[size:]
        step += 1
    assert bodies == [frame[4:] for frame in encoded]
    assert reader.buffered_bytes == 0


@pytest.mark.parametrize("length", [0, MAX_FRAME_BYTES + 1, 2**31, 2**32 - 1])
def test_impossible_lengths_are_refused_before_the_body(length: int) -> None:
    with pytest.raises(FrameError):
        FrameReader().feed(length.to_bytes(4, "big"))


def test_consensus_is_served_before_gossip_and_sync_last() -> None:
    assert class_of(FrameKind.VOTE) < class_of(FrameKind.TX) < class_of(FrameKind.BLOCKS)
    assert {class_of(kind) for kind in FrameKind} == set(MessageClass)
