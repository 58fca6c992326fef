"""The keys of a validator's machine, and the proof that whoever registers them holds their secrets.

Without the proof anybody could register a key that somebody else has shown, and keep its owner out. The proof names the
stash, so it is no use to whoever reads it, in the pool or in a block.
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
    """What a validator signs blocks and votes with, and what draws its slots. The SDK's name and use."""

    session: _Key
    vrf: _Key


@struct
class KeysProof:
    """One statement by each of the two keys over `proof_payload`."""

    session: Signature
    vrf: Annotated[bytes, Fixed(vrf.PROOF_BYTES)]


def proof_payload(genesis: bytes, stash: bytes, keys: SessionKeys) -> bytes:
    """What both keys state: on this chain, the account `stash` (32 bytes) may register the two of them."""
    if len(stash) != STASH_BYTES:
        raise ValueError(f"a stash has {STASH_BYTES} bytes, not {len(stash)}")
    return domain(KIND, genesis, stash + codec(SessionKeys).encode(keys))


def prove_keys(
    genesis: bytes, stash: bytes, keys: SessionKeys, sign: Callable[[bytes], bytes], vrf_seed: bytes
) -> KeysProof:
    """The proof, where the secrets are: `sign` is the session key's ed25519 (64 bytes), `vrf_seed` has 32 bytes."""
    payload = proof_payload(genesis, stash, keys)
    _, proof = vrf.prove(vrf_seed, payload)
    return KeysProof(sign(payload), proof)


def verify_keys(genesis: bytes, stash: bytes, keys: SessionKeys, proof: KeysProof) -> bool:
    """Whether the holder of both secrets lets `stash` register the keys. About 360 us, and less for most that do not.

    A key of small order proves nothing: anybody can sign for one.
    """
    payload = proof_payload(genesis, stash, keys)
    return (
        is_safe_public_key(keys.session)
        and is_safe_public_key(keys.vrf)
        and verify_ed25519(keys.session, payload, proof.session)
        and vrf.verify(keys.vrf, payload, proof.vrf) is not None
    )
