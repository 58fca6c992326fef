"""Signatures: the consensus rules for valid signatures.

* ed25519 follows ZIP-215 (https://zips.z.cash/zip-0215): only ed25519-zebra decides.
* sr25519 is schnorrkel with the signing context `substrate`.

No other module may import a signature library: two libraries that disagree on one crafted signature split the chain.
"""

from collections.abc import Callable
from enum import IntEnum

import ed25519_zebra
import sr25519
from nacl.bindings import (
    crypto_core_ed25519_is_valid_point,
    crypto_scalarmult_base,
    crypto_sign,
    crypto_sign_seed_keypair,
)

from runtime.cryptography.hashing import blake2_256

PUBLIC_KEY_BYTES = 32
SEED_BYTES = 32
SIGNATURE_BYTES = 64


class Scheme(IntEnum):
    """The signature schemes of an account. The numbers are the variants of Substrate's `MultiSignature`."""

    ED25519 = 0
    # polkadot.js and its browser extension make sr25519 keys by default.
    SR25519 = 1


VerifySignature = Callable[[Scheme, bytes, bytes, bytes], bool]
"""(scheme, public key, message, signature): `verify`, or a cache in front of it."""


def verify(scheme: Scheme, public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Return True if `signature` by the account `public_key` over `message` is valid.

    Stricter than the two functions below in one point: a key of small order signs nothing. Anyone can make a signature
    that such a key "verifies". One such key is the all-zero account, which people use as a burn address.
    """
    # Here and not in `verify_ed25519`, which follows ZIP-215 exactly.
    if public_key in SMALL_ORDER_KEYS:
        return False
    if scheme is Scheme.ED25519:
        return verify_ed25519(public_key, message, signature)
    return verify_sr25519(public_key, message, signature)


def verify_ed25519(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Return the ZIP-215 verdict on 32, any and 64 bytes. Other lengths are not valid."""
    if len(public_key) != PUBLIC_KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    # libsodium takes a third longer (57 us instead of 43), and would need a second check of refused signatures.
    return bool(ed25519_zebra.ed_verify(signature, message, public_key))


def verify_sr25519(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Return schnorrkel's verdict, context `substrate`, on 32, any and 64 bytes. Other lengths are not valid."""
    if len(public_key) != PUBLIC_KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        return bool(sr25519.verify(signature, message, public_key))
    except ValueError:  # raised for bytes that encode no point, no scalar or no signature
        return False


def is_safe_public_key(public_key: bytes) -> bool:
    """Return True if an ed25519 key may be registered: a canonical point of the prime-order subgroup, not the identity.

    Every honestly made key is one. Other keys can have signatures for messages that their owner never saw.
    """
    return len(public_key) == PUBLIC_KEY_BYTES and crypto_core_ed25519_is_valid_point(public_key)


def keypair_from_seed(scheme: Scheme, seed: bytes) -> tuple[bytes, bytes]:
    """Return the public key (32 bytes) and the secret key (64 bytes) of a 32-byte seed.

    The secret key is libsodium's `seed || public key` for ed25519, schnorrkel's `scalar || nonce` for sr25519. Raise
    ValueError for a seed of another length.
    """
    if len(seed) != SEED_BYTES:
        raise ValueError(f"a seed has {SEED_BYTES} bytes, not {len(seed)}")
    public_key, secret_key = (
        crypto_sign_seed_keypair(seed) if scheme is Scheme.ED25519 else sr25519.pair_from_seed(seed)
    )
    return bytes(public_key), bytes(secret_key)


def sign(scheme: Scheme, public_key: bytes, secret_key: bytes, message: bytes) -> bytes:
    """Return a 64-byte signature with the keys from `keypair_from_seed`.

    An ed25519 signature is a function of its arguments. sr25519 mixes in randomness of the operating system, so it
    belongs to wallets and never to the execution of a block.
    """
    if scheme is Scheme.ED25519:
        return crypto_sign(message, secret_key)[:SIGNATURE_BYTES]
    return bytes(sr25519.sign((public_key, secret_key), message))


def derive_sr25519(public_key: bytes, secret_key: bytes, chain_code: bytes, *, hard: bool) -> tuple[bytes, bytes]:
    """Return the child (public key, secret key) of an sr25519 key at a 32-byte chain code (one junction of a path).

    The nonce half of a soft child's secret is random, so equal children have equal public keys, but not equal bytes.
    """
    derive_child = sr25519.hard_derive_keypair if hard else sr25519.derive_keypair
    _, child_public, child_secret = derive_child((chain_code, public_key, secret_key), b"")
    return bytes(child_public), bytes(child_secret)


def seal_keypair_from_seed(seed: bytes) -> tuple[bytes, bytes]:
    """Return the X25519 key pair (public, secret) that opens messages sealed to the owner of a signing seed.

    A hash under a domain of its own keeps the two uses of the seed apart.
    """
    secret_key = blake2_256(b"ogpu/seal-key/1" + seed)
    return crypto_scalarmult_base(secret_key), secret_key


def secret_key_to_expanded(scheme: Scheme, secret_key: bytes) -> bytes:
    """Return polkadot.js's 64 bytes of a secret key: for sr25519 the scalar times 8, as in old ed25519 code."""
    return secret_key if scheme is Scheme.ED25519 else bytes(sr25519.convert_secret_key_to_ed25519(secret_key))


def secret_key_from_expanded(scheme: Scheme, expanded: bytes) -> tuple[bytes, bytes]:
    """Return the public and secret key of such 64 bytes. Raise ValueError if they are not a secret key."""
    if scheme is Scheme.SR25519:
        public_key, secret_key = sr25519.pair_from_ed25519_secret_key(expanded)
        return bytes(public_key), bytes(secret_key)
    key_pair = keypair_from_seed(scheme, expanded[:SEED_BYTES])
    if key_pair[1] != expanded:
        raise ValueError("not an ed25519 secret key: the public half does not match the seed")
    return key_pair


def _small_order_keys() -> frozenset[bytes]:
    """Return all 14 encodings, canonical or not, of the eight ed25519 points whose order divides 8.

    The y coordinates are 0 (order 4), 1 (the identity), -1 (order 2) and the two of order 8, which are facts of the
    curve. y = 0 and y = 1 also fit below 2^255 with the prime added. Each may have either sign bit.
    """
    field_prime = 2**255 - 19
    order_8_y = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
    encodings = set()
    for coordinate in (0, 1, field_prime - 1, order_8_y, field_prime - order_8_y, field_prime, field_prime + 1):
        for sign_bit in (0, 1):
            encodings.add((coordinate | sign_bit << 255).to_bytes(32, "little"))
    return frozenset(encodings)


SMALL_ORDER_KEYS = _small_order_keys()
"""Keys that anyone can sign for. The all-zero one is also the identity of ristretto, the only such sr25519 key."""
