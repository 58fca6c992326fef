"""Block 0 of a specification: worked out when its database is new, and known from the database ever after.

Working it out decodes each address, encodes each account and hashes them all: seconds for 100,000 accounts, at every
start. What always holds: the database's word is taken only for the very genesis, and the very rules, that it was noted
for; whatever else the specification says is worked out again and compared, so a changed one is refused.
"""

from __future__ import annotations

import json
from pathlib import Path

from genesis.chain import VERSION, genesis_block_header, genesis_state, runtime_of
from genesis.parameters import CONSENSUS
from genesis.presets import load_spec
from genesis.spec import ChainSpec
from node.errors import as_bad_input
from node.ledger.chain import Chain
from node.ledger.opening import open_chain
from node.ledger.storage import Storage
from runtime.blocks.block import block_id
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import VerifySignature

DIGEST_LAYOUT = 2  # another number for another meaning of `genesis_digest`, or of what is kept of block 0
PROBE = "dev"


def open_noted_chain(path: Path, spec: ChainSpec, verify: VerifySignature) -> Chain:
    """The chain of a specification in the database at `path`; a new database gets its genesis block.

    Raises `NodeError`: a specification that makes no block 0 before anything is written, one of another chain after.
    """
    digest = genesis_digest(spec)
    state = None if path.exists() else _state_of(spec)
    storage = Storage(path)
    try:
        genesis = storage.genesis_noted_for(digest)
        if genesis is not None:
            return Chain(storage, runtime_of(spec), CONSENSUS[spec.parameters], genesis, verify)
        chain = open_chain(storage, spec, _state_of(spec) if state is None else state, verify)
        storage.note_genesis_for(digest)
    except BaseException:
        storage.close()
        raise
    return chain


def genesis_digest(spec: ChainSpec) -> bytes:
    """32 bytes of all that block 0 follows from: the specification's genesis, and how this program reads one.

    Names, boot nodes and properties have no part in block 0. A program whose rules give the same small specification
    another block 0 may read this one otherwise too, with or without a new version number.
    """
    probe = block_id(genesis_block_header(genesis_state(load_spec(PROBE))))
    if spec.patch is None:
        genesis: object = [f"{key.hex()}:{value.hex()}" for key, value in sorted((spec.raw or {}).items())]
    else:
        genesis = spec.patch
    rules = [DIGEST_LAYOUT, VERSION.spec_name, VERSION.spec_version, VERSION.transaction_version, probe.hex()]
    return blake2_256(json.dumps([rules, spec.chain_type, spec.parameters, genesis], sort_keys=True).encode())


def _state_of(spec: ChainSpec) -> dict[bytes, bytes]:
    with as_bad_input(ValueError):
        return genesis_state(spec)
