"""The verdicts on signatures, frozen: if a library's new version changed one, the chain would split."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edwards25519 as curve
from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme

CASES = json.loads((Path(__file__).parent / "vectors" / "ed25519.json").read_text())["cases"]
SEED = bytes(range(32))
SMALL = sorted(signatures.SMALL_ORDER_KEYS)
RISTRETTO_IDENTITY = bytes(32)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_edge_vectors_ed25519(case: dict[str, Any]) -> None:
    public_key, message, signature = (bytes.fromhex(case[k]) for k in ("pub_key", "message", "signature"))
    assert signatures.verify_ed25519(public_key, message, signature) is case["valid"]
    assert curve.zip215(public_key, message, signature) is case["valid"]


def test_small_order_keys_are_all_points_of_the_torsion_group() -> None:
    assert len(SMALL) == 14
    points = [curve.decode(key) for key in SMALL]
    assert all(point is not None and curve.multiply(8, point) == curve.IDENTITY for point in points)
    assert len(set(points)) == 8


@pytest.mark.parametrize("public_key", SMALL)
def test_small_order_keys_verify_anything_under_zip215_and_nothing_as_accounts(public_key: bytes) -> None:
    """ZIP-215 accepts all 14 x 14 pairs of small A and R with S = 0 for every message (its specification says so)."""
    for r in SMALL:
        signature = r + bytes(32)
        assert signatures.verify_ed25519(public_key, b"anything", signature)
        assert not signatures.verify(Scheme.ED25519, public_key, b"anything", signature)
    assert not signatures.is_safe_public_key(public_key)


def test_all_zero_account_cannot_be_spent_with_sr25519() -> None:
    """S = 1 and R = B is a schnorrkel signature of the identity over every message. Only `verify` refuses it."""
    ristretto_base = "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76"
    forged = bytes.fromhex(ristretto_base) + bytes([1, *bytes(30), 0x80])
    assert signatures.verify_sr25519(RISTRETTO_IDENTITY, b"anything", forged)
    assert not signatures.verify(Scheme.SR25519, RISTRETTO_IDENTITY, b"anything", forged)


@pytest.mark.parametrize("torsion", SMALL)
def test_key_with_a_torsion_component_is_not_safe(torsion: bytes) -> None:
    """Order 2 is the case that libsodium missed until the end of 2025 (CVE-2025-69277)."""
    honest, _ = signatures.keypair_from_seed(Scheme.ED25519, SEED)
    point, small = curve.decode(honest), curve.decode(torsion)
    assert point is not None
    assert small is not None
    mixed = curve.encode(curve.add(point, small))
    assert signatures.is_safe_public_key(mixed) is (small == curve.IDENTITY)


def test_keys_that_encode_no_point_are_not_safe() -> None:
    honest, _ = signatures.keypair_from_seed(Scheme.ED25519, SEED)
    assert signatures.is_safe_public_key(honest)
    assert not signatures.is_safe_public_key(honest[:31])
    assert not signatures.is_safe_public_key(b"\xff" * 32)
    assert not signatures.is_safe_public_key(b"\x02" + bytes(31))


def test_ed25519_rfc8032_vector_2() -> None:
    seed = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    public_key, secret_key = signatures.keypair_from_seed(Scheme.ED25519, seed)
    assert public_key.hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    assert signatures.sign(Scheme.ED25519, public_key, secret_key, b"\x72").hex() == (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )


@pytest.mark.parametrize("scheme", list(Scheme))
@given(seed=st.binary(min_size=32, max_size=32), message=st.binary(max_size=100), data=st.data())
@settings(max_examples=30)
def test_only_the_signed_message_key_and_scheme_verify(
    scheme: Scheme, seed: bytes, message: bytes, data: st.DataObject
) -> None:
    public_key, secret_key = signatures.keypair_from_seed(scheme, seed)
    other_key, _ = signatures.keypair_from_seed(scheme, bytes(b ^ 1 for b in seed))
    signature = signatures.sign(scheme, public_key, secret_key, message)
    assert signatures.verify(scheme, public_key, message, signature)
    assert not signatures.verify(scheme, other_key, message, signature)
    assert not signatures.verify(scheme, public_key, message + b"\0", signature)
    assert not signatures.verify(Scheme(1 - scheme), public_key, message, signature)
    bit = data.draw(st.integers(0, 511))
    flipped = (int.from_bytes(signature, "big") ^ 1 << bit).to_bytes(64, "big")
    assert not signatures.verify(scheme, public_key, message, flipped)


@pytest.mark.parametrize("scheme", list(Scheme))
@pytest.mark.parametrize(("key_bytes", "signature_bytes"), [(0, 64), (31, 64), (33, 64), (32, 0), (32, 63), (32, 65)])
def test_wrong_lengths_are_invalid(scheme: Scheme, key_bytes: int, signature_bytes: int) -> None:
    assert not signatures.verify(scheme, b"\x07" * key_bytes, b"message", b"\x07" * signature_bytes)


def sr25519_signature() -> tuple[bytes, bytes]:
    public_key, secret_key = signatures.keypair_from_seed(Scheme.SR25519, SEED)
    return public_key, signatures.sign(Scheme.SR25519, public_key, secret_key, b"m")


def test_malformed_sr25519_is_invalid_not_an_error() -> None:
    public_key, signature = sr25519_signature()
    order = curve.L.to_bytes(32, "little")
    unmarked = signature[:63] + bytes([signature[63] & 0x7F])
    scalar_too_big = signature[:32] + order[:31] + bytes([order[31] | 0x80])
    for bad_key, bad_signature in [
        (public_key, unmarked),
        (public_key, scalar_too_big),
        (public_key, b"\xff" * 32 + signature[32:]),
        (b"\xff" * 32, signature),
        (b"\x01" + bytes(31), signature),
    ]:
        assert not signatures.verify_sr25519(bad_key, b"m", bad_signature)


def test_known_sr25519_keys_of_seeds() -> None:
    """The mini secret of //Alice and its public key, as every Substrate tool shows them."""
    alice = bytes.fromhex("e5be9a5092b81bca64be81d212e7f2f9eba183bb7a90954f7b76361f6edb5c0a")
    public_key, _ = signatures.keypair_from_seed(Scheme.SR25519, alice)
    assert public_key.hex() == "d43593c715fdd31c61141abd04a99fd6822c8558854ccde39a5684e7a56da27d"


def test_seed_of_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        signatures.keypair_from_seed(Scheme.SR25519, bytes(31))
