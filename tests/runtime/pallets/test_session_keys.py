"""Proof of possession: each named part, and each of its halves, counts alone."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.cryptography import vrf
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import SMALL_ORDER_KEYS, Scheme, keypair_from_seed, sign
from runtime.encoding.codec import codec
from runtime.pallets.session_keys import KeysProof, SessionKeys, proof_payload, prove_keys, verify_keys

GENESIS, STASH = blake2_256(b"genesis"), blake2_256(b"stash")
SESSION_SEED, VRF_SEED, OTHER_SEED = (blake2_256(name) for name in (b"session", b"vrf", b"other"))


def signer(seed: bytes) -> Callable[[bytes], bytes]:
    return partial(sign, Scheme.ED25519, *keypair_from_seed(Scheme.ED25519, seed))


def session_key(seed: bytes) -> bytes:
    return keypair_from_seed(Scheme.ED25519, seed)[0]


KEYS = SessionKeys(session_key(SESSION_SEED), vrf.public_key(VRF_SEED))
PROOF = prove_keys(GENESIS, STASH, KEYS, signer(SESSION_SEED), VRF_SEED)


def test_the_holder_of_both_secrets_proves_it() -> None:
    assert verify_keys(GENESIS, STASH, KEYS, PROOF)


def test_sizes_and_payload_are_frozen() -> None:
    """Other programs make these bytes: the node's RPC, a wallet, polkadot.js."""
    assert len(codec(SessionKeys).encode(KEYS)) == 64
    assert len(codec(KeysProof).encode(PROOF)) == 144
    head = b"ogpu/1/keys\0\0\0\0"
    assert proof_payload(GENESIS, STASH, KEYS) == head + GENESIS + STASH + KEYS.session + KEYS.vrf


@pytest.mark.parametrize(
    ("genesis", "stash", "keys"),
    [
        pytest.param(blake2_256(b"fork"), STASH, KEYS, id="another chain"),
        pytest.param(GENESIS, blake2_256(b"thief"), KEYS, id="another stash"),
        pytest.param(GENESIS, STASH, replace(KEYS, session=session_key(OTHER_SEED)), id="another session key"),
        pytest.param(GENESIS, STASH, replace(KEYS, vrf=vrf.public_key(OTHER_SEED)), id="another VRF key"),
        pytest.param(GENESIS, STASH, SessionKeys(KEYS.vrf, KEYS.session), id="the keys in each other's place"),
    ],
)
def test_a_proof_is_good_for_what_it_names_alone(genesis: bytes, stash: bytes, keys: SessionKeys) -> None:
    assert not verify_keys(genesis, stash, keys, PROOF)


def test_neither_half_stands_for_the_other() -> None:
    """The owner of one secret cannot register with another's key, because each half is checked by itself."""
    without_session = prove_keys(GENESIS, STASH, KEYS, signer(OTHER_SEED), VRF_SEED)
    without_vrf = prove_keys(GENESIS, STASH, KEYS, signer(SESSION_SEED), OTHER_SEED)
    assert not verify_keys(GENESIS, STASH, KEYS, without_session)
    assert not verify_keys(GENESIS, STASH, KEYS, without_vrf)


@pytest.mark.parametrize("key", sorted(SMALL_ORDER_KEYS), ids=bytes.hex)
def test_a_key_that_anybody_signs_for_proves_nothing(key: bytes) -> None:
    """For such a key, R = identity, s = 0 is a signature of every message by the rule of ZIP-215."""
    forged = (1).to_bytes(32, "little") + bytes(32)
    keys = replace(KEYS, session=key)
    half = prove_keys(GENESIS, STASH, keys, lambda _: forged, VRF_SEED)
    assert not verify_keys(GENESIS, STASH, keys, half)
    keys = replace(KEYS, vrf=key)
    assert not verify_keys(GENESIS, STASH, keys, prove_keys(GENESIS, STASH, keys, signer(SESSION_SEED), VRF_SEED))


def test_a_stash_of_another_length_is_a_mistake_of_ours() -> None:
    """Otherwise two statements could have one payload."""
    with pytest.raises(ValueError, match="not 33"):
        proof_payload(GENESIS, STASH + b"\0", KEYS)


@settings(max_examples=60)
@given(place=st.integers(0, 143), flip=st.integers(1, 255))
def test_no_changed_byte_of_a_proof_is_accepted(place: int, flip: int) -> None:
    data = bytearray(codec(KeysProof).encode(PROOF))
    data[place] ^= flip
    assert not verify_keys(GENESIS, STASH, KEYS, codec(KeysProof).decode(bytes(data)))
