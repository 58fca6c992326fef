import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.data.sealing import (
    BLOB_BYTES_MAX,
    CONTENT_BYTES_MAX,
    READERS_MAX,
    SealError,
    SealKey,
    address_of,
    is_usable,
    seal,
)

ALICE, BOB, EVE = (SealKey.from_seed(bytes([n]) * 32) for n in (1, 2, 3))


@given(st.binary(max_size=2000))
def test_every_reader_opens_and_nobody_else(content: bytes) -> None:
    blob = seal(content, [ALICE.public, BOB.public])
    assert ALICE.open(blob) == BOB.open(blob) == content
    with pytest.raises(SealError, match="not sealed to this key"):
        EVE.open(blob)


def test_two_sealings_of_one_content_share_nothing() -> None:
    assert address_of(seal(b"x", [ALICE.public])) != address_of(seal(b"x", [ALICE.public]))


@given(st.data())
def test_any_changed_byte_is_noticed(data: st.DataObject) -> None:
    blob = bytearray(seal(b"the prompt", [ALICE.public, BOB.public]))
    place = data.draw(st.integers(0, len(blob) - 1))
    blob[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SealError):
        ALICE.open(bytes(blob))


@given(st.binary(max_size=300))
def test_no_bytes_do_more_than_fail(blob: bytes) -> None:
    with pytest.raises(SealError):
        ALICE.open(blob)


def test_limits() -> None:
    readers = [SealKey.from_seed(n.to_bytes(32, "big")).public for n in range(READERS_MAX + 1)]
    assert len(seal(bytes(CONTENT_BYTES_MAX), readers[:READERS_MAX])) <= BLOB_BYTES_MAX
    for content, wrong in ((bytes(CONTENT_BYTES_MAX + 1), readers[:1]), (b"", readers), (b"", [])):
        with pytest.raises(ValueError, match="a blob"):
            seal(content, wrong)


def test_the_secret_is_not_shown() -> None:
    assert ALICE.public.hex() in repr(ALICE)
    assert ALICE._secret.hex() not in repr(ALICE)


def test_a_key_of_small_order_is_no_reader() -> None:
    """A provider that registers one must not stop customers from sealing to the others."""
    for key in (bytes(32), b"\x01" + bytes(31), b"short"):
        assert not is_usable(key)
        with pytest.raises(ValueError, match=r"no X25519 key|expected"):
            seal(b"", [ALICE.public, key])
    assert is_usable(ALICE.public)
