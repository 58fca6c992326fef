"""A verifiable random function on edwards25519: one output for each key and input, unpredictable without the secret.

The construction is that of RFC 9381 (hash to the curve, multiply by the secret, prove equal discrete logarithms), built
from libsodium's group operations with hashes of our own. Its bytes are not those of the RFC.

    Y = x B        H = hash_to_curve(Y, alpha)     Gamma = x H        output = hash(Gamma)
    c = challenge(Y, H, Gamma, k B, k H)           s = k + c x        proof  = Gamma || c (16 bytes) || s

Invariant: a proof is accepted only if Y and Gamma are canonical points of the prime-order subgroup and s is below its
order. Without these checks a key with a small-order part could show several outputs for one input.
"""

import hashlib

from nacl.bindings import (
    crypto_core_ed25519_from_uniform,
    crypto_core_ed25519_is_valid_point,
    crypto_core_ed25519_scalar_add,
    crypto_core_ed25519_scalar_mul,
    crypto_core_ed25519_scalar_reduce,
    crypto_core_ed25519_sub,
    crypto_scalarmult_ed25519_base_noclamp,
    crypto_scalarmult_ed25519_noclamp,
)

POINT_BYTES = 32
CHALLENGE_BYTES = 16
SCALAR_BYTES = 32
PROOF_BYTES = POINT_BYTES + CHALLENGE_BYTES + SCALAR_BYTES
SEED_BYTES = 32
OUTPUT_BYTES = 32

_ORDER = 2**252 + 27742317777372353535851937790883648493
_ZERO_SCALAR = bytes(SCALAR_BYTES)


def public_key(seed: bytes) -> bytes:
    """Return the 32-byte public key of a 32-byte seed, the same as the ed25519 public key of that seed."""
    secret_scalar, _ = _expand(seed)
    return crypto_scalarmult_ed25519_base_noclamp(secret_scalar)


def prove(seed: bytes, alpha: bytes) -> tuple[bytes, bytes]:
    """Return the 32-byte output for the input `alpha`, and the 80-byte proof. About 160 us."""
    secret_scalar, nonce_key = _expand(seed)
    own_public_key = crypto_scalarmult_ed25519_base_noclamp(secret_scalar)
    point = _hash_to_curve(own_public_key, alpha)
    gamma = crypto_scalarmult_ed25519_noclamp(secret_scalar, point)
    # Derived, not random (RFC 9381, section 5.4.2): one nonce for two inputs would reveal the secret.
    nonce = _hash_to_scalar(b"nonce", nonce_key, point)
    challenge = _challenge(
        own_public_key,
        point,
        gamma,
        crypto_scalarmult_ed25519_base_noclamp(nonce),
        crypto_scalarmult_ed25519_noclamp(nonce, point),
    )
    product = crypto_core_ed25519_scalar_mul(_as_scalar(challenge), secret_scalar)
    response = crypto_core_ed25519_scalar_add(nonce, product)
    return _output(gamma), gamma + challenge + response


def verify(public_key: bytes, alpha: bytes, proof: bytes) -> bytes | None:
    """Return the output that `proof` proves for `alpha` under a 32-byte public key, None if it proves none.

    It takes about 310 us.
    """
    if len(public_key) != POINT_BYTES or len(proof) != PROOF_BYTES:
        return None
    gamma = proof[:POINT_BYTES]
    challenge = proof[POINT_BYTES:-SCALAR_BYTES]
    response = proof[-SCALAR_BYTES:]
    # First the form, because the group operations below assume valid points.
    if not _is_acceptable(public_key, gamma, challenge, response):
        return None
    point = _hash_to_curve(public_key, alpha)
    scalar = _as_scalar(challenge)
    u = crypto_core_ed25519_sub(  # s B - c Y, which is k B
        crypto_scalarmult_ed25519_base_noclamp(response), crypto_scalarmult_ed25519_noclamp(scalar, public_key)
    )
    v = crypto_core_ed25519_sub(  # s H - c Gamma, which is k H
        crypto_scalarmult_ed25519_noclamp(response, point), crypto_scalarmult_ed25519_noclamp(scalar, gamma)
    )
    if _challenge(public_key, point, gamma, u, v) != challenge:
        return None
    return _output(gamma)


def _is_acceptable(public_key: bytes, gamma: bytes, challenge: bytes, response: bytes) -> bool:
    """Return True for points of the prime-order subgroup and a canonical s, with c and s not 0.

    An honest prover never produces a c or s equal to 0.
    """
    return (
        any(challenge)
        and response != _ZERO_SCALAR
        and int.from_bytes(response, "little") < _ORDER
        and crypto_core_ed25519_is_valid_point(public_key)
        and crypto_core_ed25519_is_valid_point(gamma)
    )


def _expand(seed: bytes) -> tuple[bytes, bytes]:
    """Return the secret scalar and the nonce key of a seed.

    RFC 8032, section 5.1.5, with the scalar reduced by the group order.
    """
    if len(seed) != SEED_BYTES:
        raise ValueError(f"a seed has {SEED_BYTES} bytes, not {len(seed)}")
    digest = hashlib.sha512(seed).digest()
    clamped = bytes([digest[0] & 248]) + digest[1:31] + bytes([digest[31] & 127 | 64])
    return crypto_core_ed25519_scalar_reduce(clamped + bytes(32)), digest[32:]


def _hash_to_curve(key: bytes, alpha: bytes) -> bytes:
    """Return a point of the prime-order subgroup with an unknown logarithm.

    It is Elligator 2 of a digest, times the cofactor.
    """
    digest = hashlib.blake2b(alpha, digest_size=POINT_BYTES, key=key, person=b"ogpu-vrf-h2c").digest()
    return crypto_core_ed25519_from_uniform(digest)


def _challenge(*points: bytes) -> bytes:
    return hashlib.blake2b(b"".join(points), digest_size=CHALLENGE_BYTES, person=b"ogpu-vrf-chal").digest()


def _output(gamma: bytes) -> bytes:
    return hashlib.blake2b(gamma, digest_size=OUTPUT_BYTES, person=b"ogpu-vrf-out").digest()


def _hash_to_scalar(label: bytes, hash_key: bytes, hashed_bytes: bytes) -> bytes:
    digest = hashlib.blake2b(hashed_bytes, digest_size=64, key=hash_key, person=b"ogpu-vrf-" + label).digest()
    return crypto_core_ed25519_scalar_reduce(digest)


def _as_scalar(challenge: bytes) -> bytes:
    return challenge + bytes(SCALAR_BYTES - CHALLENGE_BYTES)
