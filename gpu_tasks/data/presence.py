"""Proof of a running daemon: it signs a client's nonce with the provider key.

    answer = SCALE(instance, ed25519 signature of the provider key over domain("presence", genesis, nonce || instance))

Invariant: an answer proves one nonce on one chain, so it cannot be replayed. The instance distinguishes two processes.
"""

from __future__ import annotations

from collections.abc import Callable

from runtime.cryptography.signatures import verify_ed25519
from runtime.cryptography.signing import domain
from runtime.encoding.codec import DecodeError, codec, struct
from runtime.encoding.types import Hash, Signature

KIND = b"presence"
NONCE_BYTES = 32
PRESENCE_BYTES = 32 + 64


@struct
class PresenceProof:
    """The answer of a running daemon."""

    instance: Hash
    """Random, and new for each process."""
    signature: Signature


_PRESENCE = codec(PresenceProof)


def prove_presence(nonce: bytes, instance: bytes, genesis_hash: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """Return the answer to a nonce of `NONCE_BYTES`. `sign` is the provider key's."""
    return _PRESENCE.encode(PresenceProof(instance, sign(domain(KIND, genesis_hash, nonce + instance))))


def proven_instance(encoded: bytes, nonce: bytes, genesis_hash: bytes, provider_key: bytes) -> bytes | None:
    """Return the instance that an answer proves, or None if the key did not sign this nonce."""
    try:
        presence = _PRESENCE.decode(encoded)
    except DecodeError:
        return None
    is_signed = verify_ed25519(provider_key, domain(KIND, genesis_hash, nonce + presence.instance), presence.signature)
    return presence.instance if is_signed else None
