"""A chain over its database; an empty one gets block 0, and what proves its genesis keys for ever."""

from __future__ import annotations

from genesis.chain import GENESIS_KEYS, runtime_of
from genesis.parameters import CONSENSUS
from genesis.spec import ChainSpec
from node.ledger.chain import STORED_PROOF, Chain
from node.ledger.storage import Storage, StoredBlock
from runtime.blocks.block import BLOCK, HEADER, Block, block_id, genesis_header
from runtime.cryptography.signatures import VerifySignature
from runtime.state.trie import Trie


def open_chain(storage: Storage, spec: ChainSpec, state: dict[bytes, bytes], verify: VerifySignature) -> Chain:
    """The chain of a specification with that genesis state; an empty database gets its genesis block."""
    trie = Trie(state)
    header = genesis_header(trie.root)
    genesis = block_id(header)
    if storage.is_empty:
        encoded = HEADER.encode(header)
        storage.initialise(StoredBlock(0, genesis, encoded, BLOCK.encode(Block(header, ()))[len(encoded) :]), state)
    storage.check_chain(genesis)
    # Also where there is one: it may be of an older program, which had other keys proved.
    storage.keep_genesis_proof(STORED_PROOF.encode(tuple(trie.prove(list(GENESIS_KEYS)))))
    return Chain(storage, runtime_of(spec), CONSENSUS[spec.parameters], genesis, verify)
