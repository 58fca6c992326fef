"""The chain for weights: 100,000 accounts over a real database, and 128 validators that are all providers.

The world executes, finalises and writes blocks like a node, without seals and certificates. A measurement runs in a
block that is begun and discarded, so the order of measurements does not matter.
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.weights.actors import Actor, patch
from genesis.chain import genesis_state, runtime_of
from genesis.presets import PROPERTIES
from genesis.spec import ChainSpec
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit
from node.ledger.chain import open_chain
from node.ledger.layers import DiffLayer
from node.ledger.storage import FinalEntry, Storage, StoredBlock
from runtime.blocks.digest import Digest
from runtime.blocks.extrinsic import decode_extrinsic, encode_bare
from runtime.cryptography import signatures
from runtime.cryptography.hashing import blake2_256
from runtime.execution.executive import BlockExecution
from runtime.frame.call import Call
from runtime.frame.runtime import Bound
from runtime.pallets.beacon import Beacon
from runtime.pallets.timestamp import Timestamp
from runtime.state.overlay import Changes
from runtime.state.trie import Trie
from simulation.chains.market_chain import OGPU
from simulation.chains.presence import digest_of

ACCOUNTS, SENDERS, VALIDATORS = 100_000, 13_000, 128
FIRST_SLOT, SLOT_MS = 1_700_000_000, 1_000
Step = Callable[[Bound], None]


class World:
    """The chain, its newest state on disk with the state's tree, and its actors."""

    def __init__(self, folder: Path, accounts: int = ACCOUNTS, senders: int = SENDERS, seed: int = 1) -> None:
        """Create the chain in an empty folder."""
        self.chance = random.Random(seed)
        self.validators = [Actor(f"validator {number}") for number in range(VALIDATORS)]
        self.senders = [Actor(f"sender {number}") for number in range(senders)]
        self.others = [self.chance.randbytes(32) for _ in range(accounts - senders)]
        self.accounts = [*(actor.stash for actor in self.senders), *self.others]
        self.by_stash = {actor.stash: actor for actor in self.validators}
        self.spec = ChainSpec(
            name="Weights", id="weights", chain_type="Development", parameters="devnet", properties=dict(PROPERTIES),
            patch=patch(self.validators, self._rich()), raw=None,
        )  # fmt: skip
        self.runtime = runtime_of(self.spec)
        self.storage = Storage(folder / "db", free_bytes_floor=0)
        chain = open_chain(self.storage, self.spec, genesis_state(self.spec), signatures.verify)
        self.genesis, self.trie = chain.genesis, chain.final.trie
        self.storage.rest_on(self.trie)
        self.height = 0

    def close(self) -> None:
        """Close the database."""
        self.storage.close()

    def now(self) -> Bound:
        """Return the newest state for reading."""
        return self.runtime.at(self.storage)

    def begin(self, author: Actor | None = None, *, has_time: bool = True) -> BlockExecution:
        """Return the next block, after its hooks and the inherent of its time."""
        number, parent = self.height + 1, self.hash_of(self.height)
        execution = BlockExecution(self.runtime, self.storage, number, parent, self.digest(author))
        if has_time:
            execution.apply_inherent(decode_extrinsic(self.runtime, encode_bare(self.runtime, self.time())))
        return execution

    def time(self) -> Call:
        """Return the next block's inherent with its time."""
        return Timestamp.set(now=(FIRST_SLOT + self.height + 1) * SLOT_MS)

    def block(self, *steps: Step, author: Actor | None = None) -> None:
        """Make one block: hooks, then the steps. It is final on disk at once."""
        execution = self.begin(author)
        for step in steps:
            step(execution.bound)
        self.commit(execution.finalize())
        execution.bound.overlay.release()

    def blocks(self, count: int) -> None:
        """Make `count` empty blocks."""
        for _ in range(count):
            self.block()

    def commit(self, changes: Changes) -> None:
        """Commit a block's changes as the newest state."""
        self.trie = self.trie.updated(changes)
        self.height += 1
        self.storage.commit_final([FinalEntry(self.next_stored(), changes, None)])
        self.storage.rest_on(self.trie)

    def next_stored(self, body: bytes = b"") -> StoredBlock:
        """Return the next block for the database, with only the fields that it needs."""
        height = self.storage.head_height + 1
        return StoredBlock(height, blake2_256(b"stored" + height.to_bytes(4, "little")), b"", body)

    def layered(self, changes: Changes) -> tuple[DiffLayer, Trie]:
        """Return the state and tree of a block after these changes."""
        trie = self.trie.updated(changes)
        return DiffLayer(self.storage, changes, trie), trie

    def digest(self, author: Actor | None = None) -> Digest:
        """Return the next block's digest without seal, with all items required at its height."""
        number, bound, reached = self.height + 1, self.now(), self.height
        who = author or self.validators[number % len(self.validators)]
        final = (reached, self.hash_of(reached)) if reached > bound[Beacon].final_height() else None
        output = blake2_256(number.to_bytes(8, "little"))
        return digest_of(bound, number, who.stash, FIRST_SLOT + number, output, final)

    def hash_of(self, height: int) -> bytes:
        """Return a block's id."""
        return self.genesis if height == 0 else blake2_256(b"block" + height.to_bytes(4, "little"))

    def unit(self, unit_id: bytes) -> Unit:
        """Return a unit's current state."""
        unit = self.now()[InferenceMarket].units[unit_id]
        assert unit is not None
        return unit

    def _rich(self) -> Sequence[tuple[bytes, int]]:
        rich = len(self.senders)
        return [(who, 100 * OGPU if place < rich else 60 * OGPU) for place, who in enumerate(self.accounts)]
