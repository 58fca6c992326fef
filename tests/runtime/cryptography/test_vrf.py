"""The VRF: its equations over an independent curve, and only the one honest output is accepted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edwards25519 as curve
from runtime.cryptography import signatures, vrf

SEED = bytes(range(32))
KEY = vrf.public_key(SEED)
ALPHA = b"slot 7"
OUTPUT, PROOF = vrf.prove(SEED, ALPHA)
TORSION = [
    point for point in map(curve.decode, sorted(signatures.SMALL_ORDER_KEYS)) if point not in (None, curve.IDENTITY)
]

seeds = st.binary(min_size=32, max_size=32)


def test_frozen_vector() -> None:
    """The bytes may never change: they are in blocks."""
    assert OUTPUT.hex() == "54afe1dde36551607c1618d23811cdad6b3f4f8e2373052292f81dbd2b7758fd"
    assert PROOF.hex() == (
        "72c9b1517c8aeee88d388bfc6727cb805078914ae5d44a126a5e764277c50dbd1a7a6a674bdfd10599d621aff5ebbf3e"
        "8d571865e2ce06b56b45c54589dcd1957876ab634a98a248fef834ade8344f0b"
    )


def test_public_key_is_the_ed25519_key_of_the_seed() -> None:
    assert signatures.keypair_from_seed(signatures.Scheme.ED25519, SEED)[0] == KEY


@given(seed=seeds, other=seeds, alpha=st.binary(max_size=80))
@settings(max_examples=40)
def test_the_proof_gives_the_output_for_its_key_and_input_only(seed: bytes, other: bytes, alpha: bytes) -> None:
    key = vrf.public_key(seed)
    output, proof = vrf.prove(seed, alpha)
    assert vrf.prove(seed, alpha) == (output, proof)
    assert vrf.verify(key, alpha, proof) == output
    assert vrf.verify(key, alpha + b"\0", proof) is None
    if other != seed:
        assert vrf.verify(vrf.public_key(other), alpha, proof) is None
        assert vrf.prove(other, alpha)[0] != output


@given(bit=st.integers(0, 8 * vrf.PROOF_BYTES - 1))
@settings(max_examples=100)
def test_every_flipped_bit_is_refused(bit: int) -> None:
    flipped = (int.from_bytes(PROOF, "big") ^ 1 << bit).to_bytes(vrf.PROOF_BYTES, "big")
    assert vrf.verify(KEY, ALPHA, flipped) is None


@given(key=st.binary(max_size=40), proof=st.binary(max_size=100))
def test_arbitrary_bytes_are_refused_without_an_error(key: bytes, proof: bytes) -> None:
    assert vrf.verify(key, ALPHA, proof) is None
    assert vrf.verify(KEY, ALPHA, proof.ljust(vrf.PROOF_BYTES, b"\x01")[: vrf.PROOF_BYTES]) is None


def test_response_is_canonical() -> None:
    response = int.from_bytes(PROOF[48:], "little") + curve.L
    assert vrf.verify(KEY, ALPHA, PROOF[:48] + response.to_bytes(32, "little")) is None


def test_zero_challenge_and_zero_response_are_refused() -> None:
    assert vrf.verify(KEY, ALPHA, PROOF[:32] + bytes(16) + PROOF[48:]) is None
    assert vrf.verify(KEY, ALPHA, PROOF[:48] + bytes(32)) is None


@pytest.mark.parametrize("small", sorted(signatures.SMALL_ORDER_KEYS))
def test_small_order_keys_and_gammas_are_refused(small: bytes) -> None:
    assert vrf.verify(small, ALPHA, PROOF) is None
    assert vrf.verify(KEY, ALPHA, small + PROOF[32:]) is None


@pytest.mark.parametrize("torsion", TORSION)
def test_a_second_output_by_a_torsion_component_is_refused(torsion: curve.Point) -> None:
    """The attack on uniqueness: Gamma + T fits both equations whenever c T vanishes. Only the group check stops it."""
    secret = 8 * 12345 % curve.L
    assert curve.BASE is not None
    key_point = curve.multiply(secret, curve.BASE)
    key = curve.encode(key_point)
    h = curve.decode(vrf._hash_to_curve(key, ALPHA))
    assert h is not None
    gamma = curve.add(curve.multiply(secret, h), torsion)
    for nonce in range(1, 1000):
        u, v = curve.multiply(nonce, curve.BASE), curve.multiply(nonce, h)
        parts = [key, *(curve.encode(point) for point in (h, gamma, u, v))]
        challenge = vrf._challenge(*parts)
        c = int.from_bytes(challenge, "little")
        if curve.multiply(c, torsion) == curve.IDENTITY:
            break
    else:
        pytest.fail("no challenge that hides the torsion was found")
    s = (nonce + c * secret) % curve.L
    assert curve.add(curve.multiply(s, h), curve.multiply(curve.L * 8 - c, gamma)) == v  # the equation itself holds
    assert vrf.verify(key, ALPHA, curve.encode(gamma) + challenge + s.to_bytes(32, "little")) is None


def test_an_honest_proof_made_by_the_oracle_is_accepted() -> None:
    """The same steps without torsion verify, so the attack above fails only because of it."""
    secret, nonce = 8 * 12345 % curve.L, 99
    assert curve.BASE is not None
    key = curve.encode(curve.multiply(secret, curve.BASE))
    h = curve.decode(vrf._hash_to_curve(key, ALPHA))
    assert h is not None
    gamma = curve.encode(curve.multiply(secret, h))
    u, v = (curve.encode(curve.multiply(nonce, point)) for point in (curve.BASE, h))
    challenge = vrf._challenge(key, curve.encode(h), gamma, u, v)
    s = (nonce + int.from_bytes(challenge, "little") * secret) % curve.L
    assert vrf.verify(key, ALPHA, gamma + challenge + s.to_bytes(32, "little")) is not None


def test_wrong_seed_length_is_our_mistake() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        vrf.prove(bytes(31), ALPHA)
