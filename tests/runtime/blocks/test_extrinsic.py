"""Extrinsics on the wire: a single form, and no byte of it may differ."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.blocks.era import mortal
from runtime.blocks.extrinsic import (
    Additional,
    Extra,
    MultiSignature,
    decode_extrinsic,
    encode_bare,
    encode_signed,
    payload_head,
    signing_payload,
)
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme
from runtime.encoding.codec import DecodeError
from runtime.encoding.scale import encode_compact
from runtime.frame.weights import SIGNED_LENGTH_MAX_BYTES
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from runtime.pallets.timestamp import Timestamp
from small_chain import ALICE, BOB, RUNTIME, SmallChain

CALL = Balances.transfer_keep_alive(dest=BOB.account, value=10**9)
SIGNATURE = MultiSignature(Scheme.SR25519, bytes(range(64)))
EXTRA = Extra(mortal(64, 42), 7, 3)
RAW = encode_signed(RUNTIME, CALL, EXTRA, ALICE.account, SIGNATURE)
VERSION_AT, ADDRESS_AT, SCHEME_AT = 2, 3, 36
MODE_AT = SCHEME_AT + 65 + 4


def test_the_layout_is_that_of_version_4() -> None:
    body = b"\x84\x00" + ALICE.account + b"\x01" + bytes(range(64)) + b"\xa5\x02" + b"\x1c" + b"\x0c" + b"\x00"
    body += b"\x02\x03\x00" + BOB.account + b"\x02\x28\x6b\xee"
    assert encode_compact(len(body)) + body == RAW
    decoded = decode_extrinsic(RUNTIME, RAW)
    assert (decoded.call, decoded.raw, decoded.hash) == (CALL, RAW, blake2_256(RAW))
    assert decoded.authorization is not None
    assert decoded.authorization.extra == EXTRA
    assert decoded.authorization.payload_head == payload_head(RUNTIME, CALL, EXTRA)


def changed(at: int, byte: int) -> bytes:
    return RAW[:at] + bytes((byte,)) + RAW[at + 1 :]


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (changed(VERSION_AT, 0x85), "version"),
        (changed(VERSION_AT, 0x45), "version"),
        (changed(ADDRESS_AT, 1), "MultiAddress::Id"),
        (changed(SCHEME_AT, 2), "neither ed25519"),
        (changed(MODE_AT, 1), "metadata hash"),
        (RAW + b"\0", "length"),
        (RAW[:-1], "length"),
        (RAW[2:], "length"),
        (encode_compact(len(RAW) - 1) + RAW[2:] + b"\0", "left over"),
        (b"", "end of input"),
        (b"\x00", "end of input"),
        (b"\x04\x84", "end of input"),
        (b"\x04\x04", "end of input"),
    ],
)
def test_every_other_form_is_refused(raw: bytes, code: str) -> None:
    with pytest.raises(DecodeError, match=code):
        decode_extrinsic(RUNTIME, raw)


@given(st.binary(max_size=200))
def test_noise_is_refused_as_undecodable_and_never_otherwise(noise: bytes) -> None:
    for raw in (
        noise,
        encode_compact(len(noise) + 1) + b"\x84" + noise,
        encode_compact(len(noise) + 1) + b"\4" + noise,
    ):
        try:
            assert decode_extrinsic(RUNTIME, raw).raw == raw
        except DecodeError:
            continue


def test_bare_extrinsics_of_both_versions_decode() -> None:
    raw = encode_bare(RUNTIME, Timestamp.set(now=5))
    for version in (4, 5):
        assert decode_extrinsic(RUNTIME, raw[:1] + bytes((version,)) + raw[2:]).call == Timestamp.set(now=5)


def test_long_payloads_are_hashed_before_they_are_signed() -> None:
    additional = Additional(1, 1, bytes(32), bytes(32))
    tail = b"\1\0\0\0\1\0\0\0" + bytes(64) + b"\0"
    for size in (256, 257):
        head = bytes(size - len(tail))
        message = signing_payload(head, additional)
        assert message == (head + tail if size == 256 else blake2_256(head + tail))


def test_signed_extrinsics_have_a_length_limit() -> None:
    chain = SmallChain()
    fits = chain.signed(ALICE, System.remark(remark=bytes(60_000)))
    assert decode_extrinsic(RUNTIME, fits).raw == fits
    long: Any = RAW[:VERSION_AT] + RAW[VERSION_AT:] + bytes(SIGNED_LENGTH_MAX_BYTES)
    body = long[2:]
    with pytest.raises(DecodeError, match="too long"):
        decode_extrinsic(RUNTIME, encode_compact(len(body)) + body)
