"""The keys of a validator's node, and the proof that their registrant holds the secrets.

Without the proof anyone could register a key that another validator has shown, and keep its owner out. The proof names
the stash, so a copy from the pool or a block is useless to others.
"""

from collections.abc import Callable
from typing import Annotated

from runtime.cryptography import vrf
from runtime.cryptography.signatures import is_safe_public_key, verify_ed25519
from runtime.cryptography.signing import domain
from runtime.encoding.codec import Fixed, codec, struct
from runtime.encoding.types import Signature

_Key = Annotated[bytes, Fixed(32)]

KIND = b"keys"
STASH_BYTES = 32


@struct
class SessionKeys:
    """The keys that sign a validator's blocks and votes, and draw its slots. The SDK's name and use."""

    session: _Key
    vrf: _Key


@struct
class KeysProof:
    """A signature of `proof_payload` by each of the two keys."""

    session: Signature
    vrf: Annotated[bytes, Fixed(vrf.PROOF_BYTES)]


def proof_payload(genesis_hash: bytes, stash: bytes, keys: SessionKeys) -> bytes:
    """Return the statement that both keys sign: on this chain, `stash` (32 bytes) may register the two of them."""
    if len(stash) != STASH_BYTES:
        raise ValueError(f"a stash has {STASH_BYTES} bytes, not {len(stash)}")
    return domain(KIND, genesis_hash, stash + codec(SessionKeys).encode(keys))


def prove_keys(
    genesis_hash: bytes, stash: bytes, keys: SessionKeys, sign_session: Callable[[bytes], bytes], vrf_seed: bytes
) -> KeysProof:
    """Return the proof. `sign_session` is the session key's ed25519 (64 bytes), `vrf_seed` has 32 bytes."""
    payload = proof_payload(genesis_hash, stash, keys)
    _, vrf_proof = vrf.prove(vrf_seed, payload)
    return KeysProof(sign_session(payload), vrf_proof)


def verify_keys(genesis_hash: bytes, stash: bytes, keys: SessionKeys, keys_proof: KeysProof) -> bool:
    """Return True if the holder of both secrets allows `stash` to register the keys.

    It takes about 360 us, and less for most invalid proofs. A key of small order proves nothing: anyone can sign for
    it.
    """
    payload = proof_payload(genesis_hash, stash, keys)
    return (
        is_safe_public_key(keys.session)
        and is_safe_public_key(keys.vrf)
        and verify_ed25519(keys.session, payload, keys_proof.session)
        and vrf.verify(keys.vrf, payload, keys_proof.vrf) is not None
    )
