import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.data.unit_input import commitment_of, decode_input, encode_input
from runtime.encoding.codec import DecodeError

HASH = st.binary(min_size=32, max_size=32)


@given(HASH, HASH, st.binary(max_size=500))
def test_an_input_comes_back(salt: bytes, reply_key: bytes, request: bytes) -> None:
    found = decode_input(encode_input(salt, reply_key, request))
    assert (found.salt, found.reply_key, found.request) == (salt, reply_key, request)


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_fail(content: bytes) -> None:
    try:
        decode_input(content)
    except DecodeError:
        return
    assert content[0] == 1


def test_an_unknown_version_is_refused() -> None:
    content = bytearray(encode_input(bytes(32), bytes(32), b""))
    content[0] = 2
    with pytest.raises(DecodeError, match="version 2"):
        decode_input(bytes(content))


def test_equal_requests_have_different_commitments() -> None:
    assert commitment_of(encode_input(b"1" * 32, bytes(32), b"x")) != commitment_of(
        encode_input(b"2" * 32, bytes(32), b"x")
    )
