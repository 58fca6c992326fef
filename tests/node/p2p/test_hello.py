"""HELLO, GOODBYE and PEERS: encoding and decoding agree, and any other bytes are a FrameError."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.p2p.addresses import Address
from node.p2p.discovery import MAX_PEERS_PER_MESSAGE, decode_peers, encode_peers
from node.p2p.frames import FrameError
from node.p2p.hello import MAX_PROOF_BYTES, GoodbyeReason, Hello, Role, decode_hello, decode_reason, encode_hello
from node.p2p.identity import identity_from_seed

PEER = identity_from_seed(bytes(32)).peer_id


@given(st.binary(min_size=32, max_size=32), st.sampled_from(Role), st.integers(0, 65535), st.binary(max_size=100))
def test_hello_roundtrip(genesis: bytes, role: Role, port: int, proof: bytes) -> None:
    hello = Hello(genesis, role, port, proof)
    assert decode_hello(encode_hello(hello)) == hello


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        [bytes(31), 0, 0, b""],
        [bytes(32), 2, 0, b""],
        [bytes(32), True, 0, b""],
        [bytes(32), 0, True, b""],
        [bytes(32), 0, 65536, b""],
        [bytes(32), 0, -1, b""],
        [bytes(32), 0, 0, bytes(MAX_PROOF_BYTES + 1)],
        [bytes(32), 0, 0, "text"],
        [bytes(32), 0, 0, b"", b""],
    ],
    ids=lambda value: repr(value)[:60],
)
def test_hello_refused(value: object) -> None:
    with pytest.raises(FrameError):
        decode_hello(msgpack.packb(value))


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    for decode in (decode_hello, decode_peers):
        try:
            decode(data)
        except FrameError:
            continue
    assert decode_reason(data) in GoodbyeReason


@given(st.lists(st.builds(Address, st.just(PEER), st.ip_addresses().map(str), st.integers(1, 65535)), max_size=40))
def test_peers_roundtrip_up_to_the_limit(addresses: list[Address]) -> None:
    assert decode_peers(encode_peers(addresses)) == addresses[:MAX_PEERS_PER_MESSAGE]


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        [[PEER, "9.9.9.9"]],
        [[PEER, "boot.example", 1]],
        [[PEER, "9.9.9.9", 0]],
        [[PEER, "9.9.9.9", True]],
        [[PEER[:-1], "9.9.9.9", 1]],
        [[PEER, "9.9.9.9", 1]] * (MAX_PEERS_PER_MESSAGE + 1),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_peers_refused(value: object) -> None:
    with pytest.raises(FrameError):
        decode_peers(msgpack.packb(value))
