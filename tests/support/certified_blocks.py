"""Blocks of the development chain with Alice's certificates, and all inputs of a client's checks."""

from __future__ import annotations

from consensus.parameters import DEVNET
from genesis import dev_accounts
from genesis.chain import GENESIS_KEYS
from played_node import DevChain, certify
from runtime.blocks.block import Block, Header, block_id
from runtime.blocks.extrinsic import MultiSignature
from runtime.cryptography.signatures import Scheme
from runtime.frame.storage import StorageItem
from runtime.pallets.balances import Balances
from runtime.state.trie import Trie
from small_chain import Person
from wallet.proved.finality import TrustRoot, trust_root
from wallet.suri import keypair_from_suri


class DevAlice(Person):
    """`//Alice`, a rich account of the development chain."""

    @property
    def account(self) -> bytes:
        return dev_accounts.stash("Alice")

    def sign(self, message: bytes) -> MultiSignature:
        return MultiSignature(Scheme.SR25519, keypair_from_suri("//Alice").sign(message))


BOB = dev_accounts.stash("Bob")


def payment(chain: DevChain, value: int) -> bytes:
    """Return Alice's payment of `value` grains to Bob."""
    return chain.signed(DevAlice("Alice", Scheme.SR25519), Balances.transfer_keep_alive(dest=BOB, value=value))


class CertifiedChain:
    """The chain, its genesis block, and every block with the trie after it."""

    def __init__(self) -> None:
        self.chain = DevChain()
        self.genesis_header: Header = self.chain.head
        self.genesis = self.chain.genesis_hash
        self.genesis_trie = self.chain.trie
        self.set_proof = self.genesis_trie.prove(list(GENESIS_KEYS))
        self.blocks: list[tuple[Block, Trie]] = []

    def author(self, *raws: bytes) -> Header:
        """The next block's header."""
        self.blocks.append((self.chain.author(*raws), self.chain.trie))
        return self.chain.head

    def certificate(self) -> bytes:
        """The head's."""
        return certify(self.chain, self.chain.head.number, block_id(self.chain.head))

    def root(self) -> TrustRoot:
        """Return the trust root of the genesis."""
        return trust_root(self.genesis, self.genesis_header, self.set_proof, self.chain.runtime, DEVNET)

    def key(self, item: StorageItem, *keys: object) -> bytes:
        """A storage key."""
        known = self.chain.runtime.item(item)
        key: bytes = known.key(*keys)  # type: ignore[attr-defined]  # by kind of item
        return key
