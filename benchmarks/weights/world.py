"""The chain on which weights are measured: 100,000 accounts over a real database, 128 validators who all provide.

Blocks are executed, made final and written as a node does it, their seals and certificates apart. What is measured
happens in a block that is begun and thrown away, so the order of measurements does not matter.
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
    """The chain, its newest state on the disk and its tree, and who lives there."""

    def __init__(self, folder: Path, accounts: int = ACCOUNTS, senders: int = SENDERS, seed: int = 1) -> None:
        """In an empty folder."""
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
        """The newest state, to read."""
        return self.runtime.at(self.storage)

    def begin(self, author: Actor | None = None, *, has_time: bool = True) -> BlockExecution:
        """The next block, its hooks run and its time set."""
        number, parent = self.height + 1, self.hash_of(self.height)
        execution = BlockExecution(self.runtime, self.storage, number, parent, self.digest(author))
        if has_time:
            execution.apply_inherent(decode_extrinsic(self.runtime, encode_bare(self.runtime, self.time())))
        return execution

    def time(self) -> Call:
        """The inherent of the next block that says when it is."""
        return Timestamp.set(now=(FIRST_SLOT + self.height + 1) * SLOT_MS)

    def block(self, *steps: Step, author: Actor | None = None) -> None:
        """One block: hooks, then the steps; it is final on the disk at once."""
        execution = self.begin(author)
        for step in steps:
            step(execution.bound)
        self.commit(execution.finalize())
        execution.bound.overlay.release()

    def blocks(self, count: int) -> None:
        """So many empty blocks."""
        for _ in range(count):
            self.block()

    def commit(self, changes: Changes) -> None:
        """Make what a block changed the newest state."""
        self.trie = self.trie.updated(changes)
        self.height += 1
        self.storage.commit_final([FinalEntry(self.next_stored(), changes, None)])
        self.storage.rest_on(self.trie)

    def next_stored(self, body: bytes = b"") -> StoredBlock:
        """The next block of the database, as far as that cares."""
        height = self.storage.head_height + 1
        return StoredBlock(height, blake2_256(b"stored" + height.to_bytes(4, "little")), b"", body)

    def layered(self, changes: Changes) -> tuple[DiffLayer, Trie]:
        """The state of a block of which so much has happened, and its tree."""
        trie = self.trie.updated(changes)
        return DiffLayer(self.storage, changes, trie), trie

    def digest(self, author: Actor | None = None) -> Digest:
        """The next block's, without seal: everything that its height asks for."""
        number, bound, reached = self.height + 1, self.now(), self.height
        who = author or self.validators[number % len(self.validators)]
        final = (reached, self.hash_of(reached)) if reached > bound[Beacon].final_height() else None
        output = blake2_256(number.to_bytes(8, "little"))
        return digest_of(bound, number, who.stash, FIRST_SLOT + number, output, final)

    def hash_of(self, height: int) -> bytes:
        """A block's id."""
        return self.genesis if height == 0 else blake2_256(b"block" + height.to_bytes(4, "little"))

    def unit(self, unit_id: bytes) -> Unit:
        """A unit as it stands."""
        unit = self.now()[InferenceMarket].units[unit_id]
        assert unit is not None
        return unit

    def _rich(self) -> Sequence[tuple[bytes, int]]:
        rich = len(self.senders)
        return [(who, 100 * OGPU if place < rich else 60 * OGPU) for place, who in enumerate(self.accounts)]
