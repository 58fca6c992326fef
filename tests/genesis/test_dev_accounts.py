"""The development accounts are Substrate's: the addresses in its documentation."""

from __future__ import annotations

from genesis import dev_accounts
from genesis.preset_names import DEV_NAMES
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme, keypair_from_seed

ALICE = "d43593c715fdd31c61141abd04a99fd6822c8558854ccde39a5684e7a56da27d"
BOB = "8eaf04151687736326c9fea17e25fc5287613693c912909cb226aa4794f26a48"
FERDIE = "1cbd2d43530a44705ad088af313e18f80b53ef16b36177cd4b77b846f2a5f07c"
ALICE_ED25519 = "88dc3417d5058ec4b4503e0c12ea1a0a89be200fe98922423d4334014fa6b0ee"


def test_stashes() -> None:
    assert dev_accounts.stash("Alice").hex() == ALICE
    assert dev_accounts.stash("Bob").hex() == BOB
    assert dev_accounts.stash("Ferdie").hex() == FERDIE


def test_ed25519_derivation_is_substrates() -> None:
    seed = blake2_256(
        dev_accounts._TEXT.encode("Ed25519HDKD") + dev_accounts.DEV_SEED + dev_accounts._chain_code("Alice")
    )
    assert keypair_from_seed(Scheme.ED25519, seed)[0].hex() == ALICE_ED25519


def test_all_keys_are_distinct() -> None:
    purposes = (dev_accounts.SESSION, dev_accounts.VRF, dev_accounts.PROVIDER)
    keys = [dev_accounts.key(name, purpose) for name in DEV_NAMES for purpose in purposes]
    stashes = [dev_accounts.stash(name) for name in DEV_NAMES]
    assert len(set(keys + stashes)) == 4 * len(DEV_NAMES)
