"""Proofs of possession: the holder of a session and a VRF key lets an account register them on one chain."""

from __future__ import annotations

import secrets

from node.config import Paths
from node.duty.keystore import SESSION, VRF, KeyPair, Keystore
from node.duty.signstate_file import SignStateFile
from node.errors import BadInputError
from runtime.cryptography import signatures
from runtime.cryptography.signatures import SEED_BYTES, Scheme
from runtime.pallets.session_keys import KeysProof, SessionKeys, prove_keys

KEYS_MAX = 64
"""The most keys of one type in a keystore. The node examines every key in every slot, and more keys are a mistake."""


def new_keys(paths: Paths, genesis: bytes) -> SessionKeys:
    """Create a session and a VRF key in the keystore, and the sign-state file of the session key before it.

    Raise `BadInputError` if the keystore is full.
    """
    keystore = Keystore(paths.keystore)
    if max(len(keystore.public_keys(key_type)) for key_type in (SESSION, VRF)) >= KEYS_MAX:
        raise BadInputError(
            f"{keystore.folder} holds {KEYS_MAX} keys of one type. Move away the keys that are in no set"
        )
    session, vrf = (KeyPair.from_seed(secrets.token_bytes(SEED_BYTES)) for _ in range(2))
    # A new key has signed nothing, so its file can begin at any height of the chain.
    SignStateFile.create(paths.sign_state(session.public), genesis, session.public)
    keystore.insert(VRF, vrf.seed)
    keystore.insert(SESSION, session.seed)
    return SessionKeys(session.public, vrf.public)


def stored_keys(store: Keystore, session: bytes | None, vrf: bytes | None) -> SessionKeys:
    """Return the named keys, or the only key of each type in the keystore.

    Raise `BadInputError` if a named key is missing, or if none is named and there is not exactly one.
    """
    return SessionKeys(_only_key(store, SESSION, session, "--session"), _only_key(store, VRF, vrf, "--vrf"))


def prove_stored(store: Keystore, keys: SessionKeys, genesis: bytes, owner: bytes) -> KeysProof:
    """Return the proof with which `owner` (32 bytes) registers keys of this keystore.

    Raise `BadInputError` if the keystore lacks one of the keys.
    """
    session, vrf = store.pair(SESSION, keys.session), store.pair(VRF, keys.vrf)
    if session is None or vrf is None:
        raise BadInputError(
            f"{store.folder} lacks one of the two keys. Insert it with `ogpu-node key insert`", code="key_missing"
        )

    def sign(payload: bytes) -> bytes:
        return signatures.sign(Scheme.ED25519, session.public, session.secret, payload)

    return prove_keys(genesis, owner, keys, sign, vrf.seed)


def _only_key(keystore: Keystore, key_type: bytes, named: bytes | None, option: str) -> bytes:
    held_keys = keystore.public_keys(key_type)
    if named is not None and named in held_keys:
        return named
    if named is None and len(held_keys) == 1:
        return held_keys[0]
    held_keys_text = ", ".join("0x" + public.hex() for public in held_keys) or "none"
    raise BadInputError(f"name a key of {keystore.folder} with {option}. It holds: {held_keys_text}")
