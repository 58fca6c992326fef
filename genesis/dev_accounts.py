"""The well-known development accounts: Alice to Ferdie, derived from Substrate's development phrase.

Anyone can sign for them, so they belong to development chains only. The names, the phrase and the derivation are
Substrate's, so every wallet and explorer shows these accounts by name.
"""

from __future__ import annotations

from functools import lru_cache

from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme, derive_sr25519, keypair_from_seed, seal_keypair_from_seed, sign
from runtime.encoding.codec import Annotated, Bounded, codec
from runtime.pallets.session_keys import KeysProof, SessionKeys, prove_keys

DEV_PHRASE = "bottom drive obey lake curtain smoke basket hold race lonely fit walk"
DEV_SEED = bytes.fromhex("fac7959dbfe72f052e5a0c3c8d6530f202b02fd8f9f5ca3580ec8deb7797479e")  # the phrase's mini-secret
SESSION, VRF, PROVIDER = "session", "vrf", "provider"

_TEXT = codec(Annotated[str, Bounded(256)])


@lru_cache(maxsize=256)
def stash(account_name: str) -> bytes:
    """Return the sr25519 account `//name`."""
    public_key, secret_key = keypair_from_seed(Scheme.SR25519, DEV_SEED)
    return derive_sr25519(public_key, secret_key, _chain_code(account_name), hard=True)[0]


@lru_cache(maxsize=256)
def key_seed(account_name: str, purpose: str) -> bytes:
    """Return the ed25519 seed `//name//purpose`."""
    seed = DEV_SEED
    for junction in (account_name, purpose):
        # Substrate's hard derivation for ed25519.
        seed = blake2_256(_TEXT.encode("Ed25519HDKD") + seed + _chain_code(junction))
    return seed


def key(account_name: str, purpose: str) -> bytes:
    """Return the ed25519 public key `//name//purpose`."""
    return keypair_from_seed(Scheme.ED25519, key_seed(account_name, purpose))[0]


def node_keys(account_name: str) -> SessionKeys:
    """Return the session and the VRF key of the account's node."""
    return SessionKeys(key(account_name, SESSION), key(account_name, VRF))


def keys_proof(account_name: str, genesis_hash: bytes, owner: bytes | None = None) -> KeysProof:
    """Return the proof with which `owner` (the account itself if None) registers these keys on a chain."""
    public_key, secret_key = keypair_from_seed(Scheme.ED25519, key_seed(account_name, SESSION))
    return prove_keys(
        genesis_hash,
        stash(account_name) if owner is None else owner,
        node_keys(account_name),
        lambda payload: sign(Scheme.ED25519, public_key, secret_key, payload),
        key_seed(account_name, VRF),
    )


def seal_key(account_name: str) -> bytes:
    """Return the X25519 public key to which inputs for the account's provider are sealed."""
    return seal_keypair_from_seed(key_seed(account_name, PROVIDER))[0]


def _chain_code(junction: str) -> bytes:
    encoded = _TEXT.encode(junction)
    # Substrate's rule for junctions of a derivation path.
    return encoded.ljust(32, b"\0") if len(encoded) <= 32 else blake2_256(encoded)
