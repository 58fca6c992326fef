"""The chain of this node: the last final state on disk, and a tree of executed blocks above it.

Invariants:

* Every block in the tree was checked and executed on its parent's state, and its state root was correct.
* States above the final one are diffs over each other, and are dropped when their branch dies. The disk changes only in
  `finalise`, by one synced batch.
* After a restart the tree is the result of executing the kept blocks again, from the last final state.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol

from consensus.certificates import CERTIFICATE, Certificate
from consensus.events import BlockFacts, CertifiedRef
from consensus.handoffs import HANDOFF, Handoff
from consensus.headers import AncestorAt, HeaderRules, NotYetError, read_header
from consensus.parameters import Parameters
from genesis.chain import GENESIS_KEYS, runtime_of
from genesis.parameters import CONSENSUS
from genesis.spec import ChainSpec
from node.errors import DatabaseError
from node.ledger.epochs import EpochTable
from node.ledger.layers import DiffLayer
from node.ledger.storage import FinalEntry, Storage, StoredBlock
from node.peers.messages import ANSWER_BYTES_MAX, BLOCKS_PER_ANSWER_MAX
from runtime.blocks.block import BLOCK, HEADER, Block, Header, block_id, genesis_header
from runtime.blocks.extrinsic import decode_extrinsic
from runtime.cryptography import signatures
from runtime.cryptography.signatures import VerifySignature
from runtime.encoding.codec import Annotated, Bounded, codec
from runtime.execution.block_builder import BuiltBlock
from runtime.execution.executive import DecodeExtrinsic, ExecutionOutcome, execute_block, execute_proven
from runtime.execution.supply import recount
from runtime.frame.errors import InvalidBlock
from runtime.frame.runtime import Bound, Runtime
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.stakers import Seat
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.state.overlay import Changes, StateReader
from runtime.state.trie import Trie
from runtime.state.trie_proof import MAX_PROOF_BYTES, MAX_PROOF_NODES

NO_KEY = bytes(32)
PROOF_TRIES_KEPT = 64  # final blocks whose state proofs can be made
_LOG = logging.getLogger(__name__)
STORED_PROOF = codec(Annotated[tuple[Annotated[bytes, Bounded(MAX_PROOF_BYTES)], ...], Bounded(MAX_PROOF_NODES)])


class OnTheirWay(Protocol):
    """Pending verdicts of workers."""

    missing: int

    async def wait(self) -> object:
        """Wait until none is missing; this lasts for ever if a worker died with them."""


class Foreseen(NamedTuple):
    """Substitutes for `verify` and `decode` with the same results, prepared in advance.

    `verify` itself checks a signature whose verdict is still missing.
    """

    verify: VerifySignature
    decode: DecodeExtrinsic
    verdicts: OnTheirWay


def open_chain(storage: Storage, spec: ChainSpec, genesis_state: dict[bytes, bytes], verify: VerifySignature) -> Chain:
    """Return the chain of a specification with that genesis state; an empty database gets its genesis block."""
    trie = Trie(genesis_state)
    first_header = genesis_header(trie.root)
    genesis_id = block_id(first_header)
    if storage.is_empty:
        encoded = HEADER.encode(first_header)
        storage.initialise(
            StoredBlock(0, genesis_id, encoded, BLOCK.encode(Block(first_header, ()))[len(encoded) :]),
            genesis_state,
        )
    storage.check_chain(genesis_id)
    # Also over an existing proof: an older program may have stored it, with other keys.
    storage.keep_genesis_proof(STORED_PROOF.encode(tuple(trie.prove(list(GENESIS_KEYS)))))
    return Chain(storage, runtime_of(spec), CONSENSUS[spec.parameters], genesis_id, verify)


# The handoff of each epoch's last block, which the database keeps for ever.
# Invariant: a handoff is written in the batch that makes its block final, so a database past a boundary has it. With
# the set of one epoch, a client can follow the handoffs (`consensus.handoffs.follow`) and needs nothing else.
def handed_on(
    parameters: Parameters, header: Header, certificate: Certificate, bound: Bound
) -> tuple[int, bytes] | None:
    """Return the epoch that a final block ends, and its handoff; None if it ends none. `bound` is after it."""
    if not parameters.is_boundary(header.number):
        return None
    header_epoch = parameters.epoch_of(header.number)
    following = bound[TrustStake].validators(header_epoch + 1)
    return header_epoch, HANDOFF.encode(Handoff(HEADER.encode(header), certificate, following))


def handed_seats(storage: Storage, epoch: int) -> tuple[Seat, ...] | None:
    """Return the active set of an epoch by the handoff of the epoch before; None if there is none."""
    kept_handoff = storage.handoff(epoch - 1)
    return None if kept_handoff is None else HANDOFF.decode(kept_handoff).seats


class UnknownParentError(Exception):
    """The block's parent is not here, or is on a dead branch."""


@dataclass(frozen=True, slots=True, eq=False)
class ExecutedBlock:
    """A block in the tree, with the state and the trie after it."""

    facts: BlockFacts
    header: Header
    stored: StoredBlock
    extrinsics: tuple[bytes, ...]
    changes: Changes
    state: DiffLayer
    trie: Trie


@dataclass(frozen=True, slots=True, eq=False)
class ProvenBlock:
    """A block whose extrinsics match its header's root, and the received bytes of both."""

    block: Block
    header: bytes
    body: bytes


class Chain:
    """One node's chain. `open_chain` creates it."""

    def __init__(
        self,
        storage: Storage,
        runtime: Runtime,
        parameters: Parameters,
        genesis_id: bytes,
        verify: VerifySignature,
    ) -> None:
        """Create the chain over a database that holds at least the genesis block."""
        self.storage = storage
        self.runtime = runtime
        self.parameters = parameters
        self.genesis = genesis_id
        self._verify_signature = verify
        self.epochs = EpochTable(runtime, storage, partial(handed_seats, storage))
        self.rules = HeaderRules(parameters, self.epochs, genesis_id, signatures.verify_ed25519)
        self._blocks_by_id: dict[bytes, ExecutedBlock] = {}
        self._proof_tries: deque[tuple[bytes, Trie]] = deque(maxlen=PROOF_TRIES_KEPT)
        self._certificate: Certificate | None = None
        self._seated_keys: tuple[int, frozenset[bytes]] = (-1, frozenset())
        self._load_final()

    # --- reads

    @property
    def final(self) -> ExecutedBlock:
        """The last final block."""
        return self._blocks_by_id[self.storage.head_id]

    @property
    def final_certificate(self) -> Certificate | None:
        """The certificate of the last final block; None for the genesis block."""
        return self._certificate

    def __contains__(self, block_id: bytes) -> bool:
        return block_id in self._blocks_by_id or self.storage.header(block_id) is not None

    def __getitem__(self, block: bytes) -> ExecutedBlock:
        return self._blocks_by_id[block]

    def get(self, block: bytes) -> ExecutedBlock | None:
        """Return a block of the tree: the last final one, or one above it."""
        return self._blocks_by_id.get(block)

    def above_final(self) -> list[ExecutedBlock]:
        """Return the blocks that are not final, parents first."""
        blocks_above = [
            executed for executed in self._blocks_by_id.values() if executed.facts.height > self.storage.head_height
        ]
        return sorted(blocks_above, key=lambda executed: executed.facts.height)

    def leaves(self) -> int:
        """Return the number of tips of the tree."""
        parent_ids = {executed.facts.parent for executed in self._blocks_by_id.values()}
        return sum(leaf_id not in parent_ids for leaf_id in self._blocks_by_id)

    def stored(self, block: bytes) -> StoredBlock | None:
        """Return a block's bytes."""
        tree_block = self._blocks_by_id.get(block)
        return tree_block.stored if tree_block is not None else self.storage.block(block)

    def branch(self, block: bytes, above_height: int) -> list[bytes]:
        """Return the bytes of `block` and its ancestors above height `above_height`.

        The answer has the oldest ones, oldest first, up to a bounded number.
        """
        tip = self.stored(block)
        if tip is None or tip.height <= above_height:
            return []
        not_final: list[StoredBlock] = []
        executed = self._blocks_by_id.get(block)
        while executed is not None and executed.facts.height > max(above_height, self.storage.head_height):
            not_final.append(executed.stored)
            executed = self._blocks_by_id.get(executed.facts.parent)
        # A peer names any two heights: the node reads no more from disk than an answer holds, and one block.
        end_height = min(tip.height, self.storage.head_height, above_height + BLOCKS_PER_ANSWER_MAX)
        oldest_first: list[StoredBlock] = []
        answer_bytes = 0
        for height in range(above_height + 1, end_height + 1):
            oldest_first.append(self._final_block(height))
            answer_bytes += len(oldest_first[-1].body)
            if answer_bytes > ANSWER_BYTES_MAX:
                not_final.clear()
                break
        oldest_first += reversed(not_final)
        return [stored.header + stored.body for stored in oldest_first[:BLOCKS_PER_ANSWER_MAX]]

    def path(self, old_id: bytes, new_id: bytes) -> tuple[list[ExecutedBlock], list[ExecutedBlock]]:
        """Return the way from `old_id` to `new_id`: blocks to revert, newest first, and to apply, oldest first."""
        reverted_blocks: list[ExecutedBlock] = []
        new_blocks: list[ExecutedBlock] = []
        old_block, new_block = self._blocks_by_id.get(old_id), self._blocks_by_id.get(new_id)
        while old_block is not None and new_block is not None and old_block is not new_block:
            if old_block.facts.height >= new_block.facts.height:
                reverted_blocks.append(old_block)
                old_block = self._blocks_by_id.get(old_block.facts.parent)
            else:
                new_blocks.append(new_block)
                new_block = self._blocks_by_id.get(new_block.facts.parent)
        if old_block is None and new_block is not None and new_block.facts.height > self.storage.head_height:
            new_blocks += self._down_to_final(new_block)
        return reverted_blocks, new_blocks[::-1]

    def is_seated(self, session: bytes) -> bool:
        """Return whether a session key is in the active or the elected set, by the last final state."""
        if self._seated_keys[0] != self.storage.head_height:
            self._seated_keys = (self.storage.head_height, self.epochs.seated())
        return session in self._seated_keys[1]

    def prove(self, block: bytes, keys: list[bytes]) -> list[bytes] | None:
        """Return a proof of `keys` in the state after `block`; None if its trie is no longer kept.

        The genesis keys are proved for ever: a client that knows only the genesis hash begins with them.
        """
        executed = self._blocks_by_id.get(block)
        tries = dict(self._proof_tries)
        trie = executed.trie if executed is not None else tries.get(block)
        if trie is None and block == self.genesis and keys == list(GENESIS_KEYS):
            return list(STORED_PROOF.decode(self.storage.genesis_proof() or b"\0")) or None
        return trie.prove(keys) if trie is not None else None

    def highest_possible(self, now_ms: int) -> int:
        """Return a bound on the height of any chain: one block a slot, none before its time."""
        now_slot = (now_ms + self.parameters.skew_ms) // self.parameters.slot_ms
        return self.final.facts.height + max(0, now_slot - self.final.facts.slot)

    # --- changes

    def check(self, header: Header, now_ms: int) -> BlockFacts:
        """Check a header by the rules, and return its facts.

        Raise `UnknownParentError`; `NotYetError` if it has to be judged later; `InvalidBlock` if it is invalid for
        ever.
        """
        parent = self._blocks_by_id.get(header.parent_hash)
        if parent is None:
            raise UnknownParentError(header.parent_hash.hex())
        return self.rules.check_header(header, parent.facts, self._ancestors_of(parent), now_ms)

    def execute(self, proven_block: ProvenBlock, facts: BlockFacts, foreseen: Foreseen | None = None) -> None:
        """Execute a block whose header passed `check`, and add it to the tree.

        Raise `UnknownParentError` if its branch has died meanwhile, or `InvalidBlock`.
        """
        parent = self._parent_of(facts)
        verify_foreseen = self._verify_signature if foreseen is None else foreseen.verify
        decode_foreseen = decode_extrinsic if foreseen is None else foreseen.decode
        outcome = execute_proven(
            self.runtime, parent.state, parent.trie, proven_block.block, verify_foreseen, decode_foreseen
        )
        stored = StoredBlock(facts.height, facts.id, proven_block.header, proven_block.body)
        self._add_block(proven_block.block, facts, stored, parent, outcome)

    def import_block(self, block: Block, now_ms: int) -> BlockFacts:
        """Check and execute a block, add it to the tree, and return its facts.

        Raise the errors of `check` and `execute`.
        """
        facts = self.check(block.header, now_ms)
        parent = self._parent_of(facts)
        outcome = execute_block(self.runtime, parent.state, parent.trie, block, self._verify_signature)
        self._add_block(block, facts, _as_stored(block, facts), parent, outcome)
        return facts

    def add_own(
        self, header: Header, built: BuiltBlock, final_ref: CertifiedRef | None, slot: int, author: bytes
    ) -> BlockFacts:
        """Add a block that this node built and sealed: its execution took place while it was built."""
        parent = self._blocks_by_id[header.parent_hash]
        referenced = parent.facts.referenced_height if final_ref is None else final_ref.height
        facts = BlockFacts(block_id(header), header.parent_hash, header.number, slot, author, referenced, final_ref)
        own_block = Block(header, built.extrinsics)
        self._add_block(own_block, facts, _as_stored(own_block, facts), parent, built.executed)
        return facts

    def keep(self, block: bytes) -> bool:
        """Write and sync a block and the blocks below it that are not final; called before a vote for it.

        Return False if the block is not here: this node must not vote for it.
        """
        tip = self._blocks_by_id.get(block)
        if tip is None:
            return self.storage.header(block) is not None
        self.storage.put_pending([executed.stored for executed in reversed(self._down_to_final(tip))])
        return True

    def finalise(self, blocks: tuple[bytes, ...], certificate: Certificate) -> list[ExecutedBlock]:
        """Make blocks final on disk, drop dead branches, and return the new final blocks, oldest first."""
        becoming = [self._blocks_by_id[final_id] for final_id in blocks]
        last_block = becoming[-1]
        self._assert_on_final(becoming)
        final_entries = [FinalEntry(executed.stored, executed.changes, None) for executed in becoming]
        handoff = handed_on(self.parameters, last_block.header, certificate, self.runtime.at(last_block.state))
        final_entries[-1] = replace(final_entries[-1], certificate=CERTIFICATE.encode(certificate), handoff=handoff)
        alive_ids = self._descendants(last_block)
        dead_ids = [dead_id for dead_id in self._blocks_by_id if dead_id not in alive_ids]
        # The disk first: if the write fails, the tree in memory is unchanged.
        self.storage.commit_final(final_entries, abandoned=dead_ids)
        self.storage.rest_on(last_block.trie)
        self._proof_tries.extend((executed.facts.id, executed.trie) for executed in becoming)
        for dead_id in dead_ids:
            del self._blocks_by_id[dead_id]
        self._rest_on_disk(last_block)
        self._certificate = certificate
        return becoming

    def restore(self, now_ms: int) -> None:
        """Execute again the blocks kept above the final one; delete those that can never connect to it."""
        abandoned = []
        for stored in self.storage.pending():
            try:
                block = BLOCK.decode(stored.header + stored.body)
                self.import_block(block, max(now_ms, self._moment_of(block.header)))
            except NotYetError as error:
                _LOG.warning("block %d 0x%s waits: %s", stored.height, stored.block_id.hex(), error)
            except UnknownParentError:
                # A higher one may descend from a block that is judged later, so it is kept.
                if stored.height <= self.storage.head_height + 1:
                    abandoned.append(stored.block_id)
            except InvalidBlock as error:
                _LOG.warning("block %d 0x%s is not kept: %s", stored.height, stored.block_id.hex(), error)
                abandoned.append(stored.block_id)
        if abandoned:
            self.storage.commit_final([], abandoned)

    # --- inside

    def _assert_on_final(self, becoming: list[ExecutedBlock]) -> None:
        """Check that final height rises block by block: each block is the child of the one before."""
        parent = self.final
        block_below: tuple[StateReader, ...] = (parent.state, self.storage)
        for executed in becoming:
            assert executed.facts.parent == parent.facts.id, "each new final block is a child of the last one"
            assert executed.facts.height == parent.facts.height + 1, (
                "each new final block is one higher than the last one"
            )
            assert executed.state.parent in block_below, "the layer of a new final block lies over its parent's state"
            parent, block_below = executed, (executed.state,)

    def _rest_on_disk(self, block: ExecutedBlock) -> None:
        """Make `block` the tree's base: its state is the disk's, and its children's layers lie on that."""
        # Its own layer ends here: a child that stayed on it would keep all the layers below in memory.
        self._blocks_by_id[block.facts.id] = replace(block, changes={}, state=DiffLayer(self.storage, {}))
        for executed in self._blocks_by_id.values():
            if executed.facts.parent == block.facts.id:
                assert executed.state.parent is block.state, "the layer of a child lies over its parent's state"
                executed.state.parent = self.storage

    def _moment_of(self, header: Header) -> int:
        """Return the start of a block's slot: a kept block passed the clock's check, and clocks may be set back."""
        return read_header(header).pre_digest.slot * self.parameters.slot_ms

    def _parent_of(self, facts: BlockFacts) -> ExecutedBlock:
        parent = self._blocks_by_id.get(facts.parent)
        if parent is None:
            raise UnknownParentError(facts.parent.hex())
        return parent

    def _add_block(
        self,
        block: Block,
        facts: BlockFacts,
        stored: StoredBlock,
        parent: ExecutedBlock,
        outcome: ExecutionOutcome,
    ) -> None:
        changes, layer = outcome.changes, DiffLayer(parent.state, outcome.changes, outcome.trie)
        self._blocks_by_id[facts.id] = ExecutedBlock(
            facts, block.header, stored, block.extrinsics, changes, layer, outcome.trie
        )

    def _load_final(self) -> None:
        """Read the last final block, and check that the state on disk has the root in its header."""
        stored = self.storage.block(self.storage.head_id)
        if stored is None:
            raise DatabaseError(
                f"the database {self.storage.path} is damaged: it lacks its own head. Run `ogpu-node purge-chain` "
                "and sync again"
            )
        block = BLOCK.decode(stored.header + stored.body)
        trie = Trie(dict(self.storage.items()))
        if trie.root != block.header.state_root:
            raise DatabaseError(
                f"the database {self.storage.path} is damaged: its state is not that of block {stored.height}. "
                "Keep the sign-state file, run `ogpu-node purge-chain`, and let the node sync again"
            )
        recount(self.runtime.at(self.storage))  # not in each block, where its time would grow with the accounts
        self.storage.rest_on(trie)
        final = self._facts_of(block.header, stored.block_id)
        final_state = DiffLayer(self.storage, {})
        self._blocks_by_id[stored.block_id] = ExecutedBlock(
            final, block.header, stored, block.extrinsics, {}, final_state, trie
        )
        self._proof_tries.append((stored.block_id, trie))
        certified = self.storage.certificate_at(stored.height)
        self._certificate = CERTIFICATE.decode(certified[1]) if certified is not None else None

    def _facts_of(self, header: Header, found_id: bytes) -> BlockFacts:
        """Return the facts of the last final block, which was checked before it was stored."""
        if header.number == 0:
            return BlockFacts(found_id, bytes(32), 0, 0, bytes(32), 0)
        parts = read_header(header)
        epoch = self.epochs(parts.pre_digest.epoch)
        members = epoch.validators.members if epoch is not None else ()
        # A validator that left the set has no key here; no caller reads the author of a final block.
        session = next(
            (member.session for member in members if member.stash == parts.author),
            NO_KEY,
        )
        referenced = self.runtime.at(self.storage)[Beacon].final_height()
        slot = parts.pre_digest.slot
        return BlockFacts(found_id, header.parent_hash, header.number, slot, session, referenced, parts.final_ref)

    def _ancestors_of(self, parent: ExecutedBlock) -> AncestorAt:
        def ancestor_at(height: int) -> bytes | None:
            if not 0 < height <= parent.facts.height:
                return None
            if height <= self.storage.head_height:
                return self.storage.id_at(height)
            executed = parent
            while executed.facts.height > height:
                executed = self._blocks_by_id[executed.facts.parent]
            return executed.facts.id

        return ancestor_at

    def _final_block(self, height: int) -> StoredBlock:
        found_id = self.storage.id_at(height)
        stored = self.storage.block(found_id) if found_id is not None else None
        if stored is None:
            raise DatabaseError(
                f"the database {self.storage.path} is damaged: it lacks final block {height}. Run `ogpu-node "
                "purge-chain` and sync again"
            )
        return stored

    def _down_to_final(self, tip: ExecutedBlock) -> list[ExecutedBlock]:
        """Return `tip` and the blocks below it that are not final, newest first."""
        path_blocks: list[ExecutedBlock] = []
        executed: ExecutedBlock | None = tip
        while executed is not None and executed.facts.height > self.storage.head_height:
            path_blocks.append(executed)
            executed = self._blocks_by_id.get(executed.facts.parent)
        return path_blocks

    def _descendants(self, root_block: ExecutedBlock) -> set[bytes]:
        alive_ids = {root_block.facts.id}
        for executed in sorted(self._blocks_by_id.values(), key=lambda executed: executed.facts.height):
            if executed.facts.parent in alive_ids:
                alive_ids.add(executed.facts.id)
        return alive_ids


def _as_stored(block: Block, facts: BlockFacts) -> StoredBlock:
    encoded = HEADER.encode(block.header)
    return StoredBlock(facts.height, facts.id, encoded, BLOCK.encode(block)[len(encoded) :])
