"""Known addresses, and agreement with the public implementation in both directions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scalecodec.utils import ss58 as public

from runtime.cryptography import ss58

ALICE = bytes.fromhex("d43593c715fdd31c61141abd04a99fd6822c8558854ccde39a5684e7a56da27d")
ALICE_TEXT = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"

accounts = st.binary(min_size=32, max_size=32)
prefixes = st.integers(0, ss58.MAX_PREFIX)


@pytest.mark.parametrize(
    ("prefix", "text"),
    [
        (42, ALICE_TEXT),
        (0, "15oF4uVJwmo4TdGW7VfQxNLavjCXviqxT9S1MgbjMNHr6Sp5"),
        (2, "HNZata7iMYWmk5RvZRTiAsSDhV8366zq2YGb3tLH5Upf74F"),
    ],
)
def test_addresses_of_alice(prefix: int, text: str) -> None:
    assert ss58.encode(ALICE, prefix) == text
    assert ss58.decode(text, prefix) == ALICE


@given(account=accounts, prefix=prefixes)
def test_round_trip_and_agreement_with_scalecodec(account: bytes, prefix: int) -> None:
    text = ss58.encode(account, prefix)
    assert ss58.decode(text, prefix) == ss58.decode(text, None) == account
    if prefix not in (46, 47):  # scalecodec refuses these two, which the registry reserves
        assert public.ss58_encode(account, prefix) == text
        assert bytes.fromhex(public.ss58_decode(text)) == account


@given(account=accounts, prefix=prefixes)
def test_addresses_fit_the_limit(account: bytes, prefix: int) -> None:
    assert len(ss58.encode(account, prefix)) <= ss58.MAX_TEXT_LENGTH


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "missing"),
        (ALICE_TEXT[:-1], "missing|checksum"),
        (ALICE_TEXT[:-1] + "Z", "checksum"),
        (ALICE_TEXT.replace("G", "0", 1), "not a character"),
        (ALICE_TEXT + " ", "not a character"),
        ("1" + ALICE_TEXT, "missing"),
        ("5" * 51, "at most"),
        ("15oF4uVJwmo4TdGW7VfQxNLavjCXviqxT9S1MgbjMNHr6Sp5", "network 0, not 42"),
    ],
)
def test_refusals_name_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ss58.InvalidAddress, match=reason):
        ss58.decode(text)


def with_prefix_bytes(prefix: bytes) -> str:
    body = prefix + ALICE
    return ss58._base58(body + ss58._checksum(body))


def test_reserved_and_overlong_prefixes_are_refused() -> None:
    with pytest.raises(ss58.InvalidAddress, match="reserved"):
        ss58.decode(with_prefix_bytes(b"\x80"), None)
    with pytest.raises(ss58.InvalidAddress, match="longer"):
        ss58.decode(with_prefix_bytes(b"\x4a\x80"), None)


@given(st.text(max_size=60))
def test_arbitrary_text_is_refused_without_another_error(text: str) -> None:
    with pytest.raises(ss58.InvalidAddress):
        ss58.decode(text)


@pytest.mark.parametrize(("account", "prefix"), [(ALICE[:31], 42), (ALICE, -1), (ALICE, 0x4000)])
def test_encoding_refuses_what_has_no_address(account: bytes, prefix: int) -> None:
    with pytest.raises(ValueError, match="not"):
        ss58.encode(account, prefix)
