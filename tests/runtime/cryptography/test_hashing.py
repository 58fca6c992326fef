"""Known answers. The storage keys equal those of any Substrate chain's System pallet."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cryptography import hashing

ALICE = bytes.fromhex("d43593c715fdd31c61141abd04a99fd6822c8558854ccde39a5684e7a56da27d")
MASK = (1 << 64) - 1
PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"),
        (b"abc", "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319"),
    ],
)
def test_blake2_256(data: bytes, expected: str) -> None:
    assert hashing.blake2_256(data).hex() == expected


def test_blake2_128() -> None:
    assert hashing.blake2_128(b"").hex() == "cae66941d9efbd404e4d88758ea67670"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (b"System", "26aa394eea5630e07c48ae0c9558cef7"),
        (b"Account", "b99d880ec681799c0cf30e8886371da9"),
        (b"Events", "80d41e5e16056765bc8461851072c9d7"),
        (b"Balances", "c2261276cc9d1f8598ea4b6a74b15c2f"),
        (b"TotalIssuance", "57c875e4cff74148e4628f264b974c80"),
    ],
)
def test_storage_prefixes_of_substrate(name: bytes, expected: str) -> None:
    assert hashing.twox_128(name).hex() == expected


def test_xxh64_reference_vectors() -> None:
    """From the xxHash specification: seed 0, the empty input and short ones."""
    assert hashing.twox_64(b"") == 0xEF46DB3751D8E999.to_bytes(8, "little")
    assert hashing.twox_64(b"a") == 0xD24EC4F1A98C6E5B.to_bytes(8, "little")
    assert hashing.twox_64(b"abc") == 0x44BC2CF5AD770999.to_bytes(8, "little")


def test_account_key_of_alice() -> None:
    assert hashing.blake2_128_concat(ALICE).hex() == "de1e86a9a8c739864cf3cc5ec2bea59f" + ALICE.hex()


def test_identity_and_twox_concat() -> None:
    assert hashing.identity(ALICE) == ALICE
    assert hashing.twox_64_concat(b"abc") == hashing.twox_64(b"abc") + b"abc"


@given(st.binary(max_size=300))
def test_digests_agree_with_independent_code(data: bytes) -> None:
    assert hashing.blake2_256(data) == hashlib.blake2b(data, digest_size=32).digest()
    assert hashing.blake2_128(data) == hashlib.blake2b(data, digest_size=16).digest()
    assert int.from_bytes(hashing.twox_64(data), "little") == xxh64_by_definition(data)


def rotate(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (64 - bits))) & MASK


def round_of(lane: int, word: int) -> int:
    return rotate((lane + word * PRIMES[1]) & MASK, 31) * PRIMES[0] & MASK


def xxh64_by_definition(data: bytes) -> int:
    """XXH64 with seed 0 written down from its specification, as an oracle."""
    p1, p2, p3, p4, p5 = PRIMES
    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data) // 8 * 8, 8)]
    stripes = len(data) // 32 * 4
    digest = p5
    if stripes:
        lanes = [(p1 + p2) & MASK, p2, 0, -p1 & MASK]
        for i in range(stripes):
            lanes[i % 4] = round_of(lanes[i % 4], words[i])
        digest = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            digest = ((digest ^ round_of(0, lane)) * p1 + p4) & MASK
    digest = (digest + len(data)) & MASK
    for word in words[stripes:]:
        digest = (rotate(digest ^ round_of(0, word), 27) * p1 + p4) & MASK
    tail = data[len(words) * 8 :]
    if len(tail) >= 4:
        digest = (rotate(digest ^ int.from_bytes(tail[:4], "little") * p1 & MASK, 23) * p2 + p3) & MASK
        tail = tail[4:]
    for byte in tail:
        digest = rotate(digest ^ byte * p5 & MASK, 11) * p1 & MASK
    digest = (digest ^ digest >> 33) * p2 & MASK
    digest = (digest ^ digest >> 29) * p3 & MASK
    return digest ^ digest >> 32
