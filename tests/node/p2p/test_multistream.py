"""Negotiation: the two ends agree in any slicing; strangers are refused; the library's own client is understood."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.p2p.multistream import MAX_LINE_BYTES, Initiator, MultistreamError, Responder, encode_line

PROTOCOL = "/ogpu/01020304/1"


@given(st.integers(1, 40))
def test_agreement_in_any_slicing(step: int) -> None:
    initiator, responder = Initiator(PROTOCOL), Responder((PROTOCOL,))
    stream = initiator.opening + b"payload"
    back = responder.opening
    while stream and responder.selected is None:
        back += responder.feed(stream[:step])
        stream = stream[step:]
    assert responder.leftover + stream == b"payload"
    for byte in back:
        assert initiator.feed(bytes([byte])) == b""
    assert (initiator.selected, responder.selected, initiator.leftover) == (PROTOCOL, PROTOCOL, b"")


def test_other_protocols_are_answered_na_and_then_ours_is_accepted() -> None:
    responder = Responder((PROTOCOL,))
    asked = encode_line("/multistream/1.0.0") + encode_line("/meshsub/1.1.0") + encode_line("/ipfs/id/1.0.0")
    assert responder.feed(asked) == encode_line("na") * 2
    assert responder.selected is None
    assert responder.feed(encode_line("ls")) == bytes([len(PROTOCOL) + 3]) + encode_line(PROTOCOL) + b"\n"
    assert responder.feed(encode_line(PROTOCOL)) == encode_line(PROTOCOL)


def test_declined() -> None:
    initiator = Initiator(PROTOCOL)
    with pytest.raises(MultistreamError, match="declined"):
        initiator.feed(encode_line("/multistream/1.0.0") + encode_line("na"))


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"\x00",
        b"\xff" * 10,
        b"\x80" * 100_000,
        bytes([0x80 | (MAX_LINE_BYTES + 1) & 0x7F, (MAX_LINE_BYTES + 1) >> 7]),
        b"\x02\xff\xff",
        b"\x03\xc3\xa9\n",
        encode_line("/multistream/2.0.0"),
        encode_line("/multistream/1.0.0") + encode_line("/x") * 20,
    ],
    ids=lambda data: repr(data[:16]),
)
def test_strangers_are_refused(data: bytes) -> None:
    with pytest.raises(MultistreamError):
        Responder((PROTOCOL,)).feed(data)


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    for side in (Responder((PROTOCOL,)), Initiator(PROTOCOL)):
        try:
            side.feed(data)
        except MultistreamError:
            continue
        assert len(side.leftover) <= len(data)
