"""The messages signed outside extrinsics.

Every message is `b"ogpu/1/" || kind, zero-padded to 8 bytes || genesis hash || SCALE body`, so a signature is valid for
one purpose on one chain. No extrinsic can be mistaken for one. Its payload begins with a pallet index, which is never
0x6f (`o`). A payload that is hashed before signing is shorter than the 47 bytes that every message here has.
"""

PREFIX = b"ogpu/1/"
KIND_BYTES = 8
GENESIS_HASH_BYTES = 32


def domain(kind: bytes, genesis_hash: bytes, body: bytes) -> bytes:
    """Return the message to sign for `body` (canonical SCALE) of a kind: 1 to 8 bytes of `a-z`, `0-9` and `-`.

    Raise ValueError for a malformed kind or genesis hash, which is always a bug.
    """
    if not 1 <= len(kind) <= KIND_BYTES or not all(byte in b"abcdefghijklmnopqrstuvwxyz0123456789-" for byte in kind):
        raise ValueError(f"unknown kind of signed message: {kind!r}")
    if len(genesis_hash) != GENESIS_HASH_BYTES:
        raise ValueError(f"a genesis hash has {GENESIS_HASH_BYTES} bytes, not {len(genesis_hash)}")
    return PREFIX + kind.ljust(KIND_BYTES, b"\0") + genesis_hash + body
