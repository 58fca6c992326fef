"""Hash functions of the chain, and the hashers of storage keys.

BLAKE2b is the only cryptographic hash. xxHash ("twox") merely spreads names and keys that nobody can choose freely. The
names and byte orders are Substrate's, so that public clients compute the same storage keys.
"""

import hashlib

import xxhash

HASH_BYTES = 32

_BLAKE2_256 = hashlib.blake2b(digest_size=32)
_BLAKE2_128 = hashlib.blake2b(digest_size=16)


def blake2_256(data: bytes) -> bytes:
    """Return the 32-byte BLAKE2b digest (RFC 7693, no key): block ids, state roots, transaction hashes."""
    state = _BLAKE2_256.copy()  # a copy of a prepared state costs less than a new one
    state.update(data)
    return state.digest()


def blake2_128(data: bytes) -> bytes:
    """Return the 16-byte BLAKE2b digest (RFC 7693, no key). It is not a prefix of `blake2_256`."""
    state = _BLAKE2_128.copy()
    state.update(data)
    return state.digest()


def twox_64(data: bytes) -> bytes:
    """Return XXH64 with seed 0, as 8 little-endian bytes."""
    return xxhash.xxh64_intdigest(data, 0).to_bytes(8, "little")


def twox_128(data: bytes) -> bytes:
    """Return XXH64 with seeds 0 and 1, 8 little-endian bytes each: the prefix of every pallet and storage item."""
    return twox_64(data) + xxhash.xxh64_intdigest(data, 1).to_bytes(8, "little")


def identity(key: bytes) -> bytes:
    """Return the key as it is. Use this hasher only for keys that are hashes already."""
    return key


def twox_64_concat(key: bytes) -> bytes:
    """Return `twox_64(key) + key`: fast and listable. Only for keys that a user cannot choose (indices, slots)."""
    return twox_64(key) + key


def blake2_128_concat(key: bytes) -> bytes:
    """Return `blake2_128(key) + key`: listable and safe for keys that a user can choose."""
    return blake2_128(key) + key
