"""The RPC process's copy of the chain: the final state, and the blocks before and after it.

`apply` takes the node's frames in order. Invariants:

* `state` is the state after block `final`. Every block above it has its ancestors here, down to `final`.
* A block below `final` can be read while it is one of the last `KEPT` final ones, and not afterwards.
* After each frame the broadcasts have reported every new block, best block and final block, parents first. A block is
  reported as best, or a later one of its branch is, before it is reported as final.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from sortedcontainers import SortedDict

from node.feed import messages as feed
from node.ledger.layers import DiffLayer
from node.rpc.past_states import PastStates
from node.rpc.subscriptions.broadcast import Publisher, Topics
from runtime.blocks.block import HEADER, Header, block_id
from runtime.state.overlay import Changes, StateReader

RECENT_BLOCKS = 1024


# States after blocks above the final one: the changes of each over its parent's state.
# Invariant: the layers below a state are at most a `JOINED`-th of the blocks between it and the final one, plus
# `JOINED`. While finality halts, reads therefore do not become slower with every block.
JOINED = 16  # blocks


class UnsettledStates:
    """The states after blocks above the final one, by block id."""

    def __init__(self, final_state: StateReader) -> None:
        """Create it; `final_state` always reads the state after the last final block."""
        self._final_state = final_state
        self._readers_by_id: dict[bytes, StateReader] = {}
        self._parents_and_changes: dict[bytes, tuple[bytes, Changes]] = {}  # the parent, and the block's changes
        self._depths_by_id: dict[bytes, int] = {}

    def get(self, block_id: bytes) -> StateReader | None:
        """Return the state after a block."""
        return self._readers_by_id.get(block_id)

    def written(self, block_id: bytes) -> Changes | None:
        """Return a block's writes, unchanged values included; None for an unknown block."""
        parent_and_changes = self._parents_and_changes.get(block_id)
        return None if parent_and_changes is None else parent_and_changes[1]

    def add(self, block_id: bytes, parent_id: bytes, changes: Changes) -> None:
        """Add a block; its parent is the final one, unless the parent is known here."""
        self._parents_and_changes[block_id] = (parent_id, changes)
        branch_depth = self._depths_by_id[block_id] = self._depths_by_id.get(parent_id, 0) + 1
        if branch_depth % JOINED:
            self._readers_by_id[block_id] = DiffLayer(self._readers_by_id.get(parent_id, self._final_state), changes)
            return
        stretch = [changes]
        while len(stretch) < JOINED:
            parent_id, earlier_changes = self._parents_and_changes[parent_id]
            stretch.append(earlier_changes)
        joined: dict[bytes, bytes | None] = {}
        for earlier_changes in reversed(stretch):
            joined.update(earlier_changes)
        self._readers_by_id[block_id] = DiffLayer(self._readers_by_id.get(parent_id, self._final_state), joined)

    def settle(self, settled_ids: Iterable[bytes]) -> list[Changes]:
        """Remove blocks that became final, parents first, and return their changes."""
        return [self._parents_and_changes.pop(block_id)[1] for block_id in settled_ids]

    def lay_anew(self, final_id: bytes) -> list[bytes]:
        """Put the remaining blocks over the new final state; drop and return those that do not descend from it."""
        remaining_blocks, self._parents_and_changes = self._parents_and_changes, {}
        self._readers_by_id.clear()
        self._depths_by_id.clear()
        lost: list[bytes] = []
        # Parents first: if its parent is neither final nor left, the block is on a branch that lost.
        for known, (parent_id, changes) in remaining_blocks.items():
            if parent_id == final_id or parent_id in self._parents_and_changes:
                self.add(known, parent_id, changes)
            else:
                lost.append(known)
        return lost


class UnknownBlockError(LookupError):
    """The state after this block is not kept, or there is no such block."""


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """A block with its decoded header; `extrinsics` is None if only the header is here."""

    id: bytes
    header: Header
    extrinsics: tuple[bytes, ...] | None


class FinalState:
    """The values after the last final block: a `StateReader` that `update` moves forward."""

    def __init__(self) -> None:
        """Create an empty state."""
        self._values: SortedDict[bytes, bytes] = SortedDict()

    def get(self, key: bytes, /) -> bytes | None:
        """Return the value under `key`."""
        value: bytes | None = self._values.get(key)
        return value

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """Yield the keys that begin with `prefix` and come after `start`, ascending."""
        for stored_key in self._values.irange(max(prefix, start)):
            if not stored_key.startswith(prefix):
                return
            if stored_key > start or not start:
                yield stored_key

    def update(self, changes: Changes) -> Changes:
        """Apply `changes`, and return the changes that undo them."""
        undo_changes: dict[bytes, bytes | None] = {}
        for key, value in changes.items():
            undo_changes[key] = self._values.get(key)
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
        return undo_changes


class Replica:
    """The RPC process's copy of the chain. Attributes may be read; only `apply` writes them."""

    def __init__(self) -> None:
        """Create it empty, until the node has sent all frames up to its first `NodeStatus`."""
        self.hello: feed.FeedHello | None = None
        self.status: feed.NodeStatus | None = None
        self.final: BlockRecord | None = None
        self.best: BlockRecord | None = None
        self.state = FinalState()
        self.blocks: dict[bytes, BlockRecord] = {}
        self.imported: Publisher[BlockRecord] = Publisher()
        self.new_best: Publisher[BlockRecord] = Publisher()
        self.finalised: Publisher[BlockRecord] = Publisher()
        self.extrinsic_statuses: Topics[feed.ExtrinsicStatus] = Topics()  # by the hash of the extrinsic
        self._past_states = PastStates(self.state)
        self._unsettled = UnsettledStates(self.state)
        self._kept_ids: deque[bytes] = deque()
        self._final_ids: dict[int, bytes] = {}  # by height, of the blocks that are kept here
        self._best_ids: dict[int, bytes] = {}  # by height, from above the final block up to the best one

    @property
    def is_ready(self) -> bool:
        """True if the replica has caught up with the node once."""
        return self.status is not None

    def apply(self, frame: feed.ToRpc) -> None:
        """Apply the node's next frame."""
        match frame:
            case feed.FeedHello():
                self.hello = frame
            case feed.Snapshot():
                self._take_snapshot(frame)
            case feed.Reverse():
                self._take_reverse(frame)
            case feed.ImportedBlock():
                self._take_block(frame)
            case feed.NodeStatus():
                self._take_status(frame)
            case feed.ExtrinsicStatus():
                self.extrinsic_statuses.publish(frame.extrinsic_hash, frame)
            case _:
                raise feed.FeedError(f"{type(frame).__name__} is an answer, not news")

    def reader(self, block_id: bytes) -> StateReader:
        """Return the state after a block. Raise `UnknownBlockError` if it is not kept."""
        if self.final is not None and block_id == self.final.id:
            return self.state
        state_reader = self._unsettled.get(block_id) or self._past_states.reader(block_id)
        if state_reader is None:
            raise UnknownBlockError
        return state_reader

    def written(self, block: BlockRecord) -> Collection[bytes]:
        """Return the keys that a block wrote, unchanged values included; none if its state is not kept."""
        changes = self._unsettled.written(block.id)
        if changes is None and self._final_ids.get(block.header.number) == block.id:
            changes = self._past_states.undone(block.header.number)
        return changes or ()

    def id_at(self, height: int) -> bytes | None:
        """Return the id at `height` on the best branch, as far as blocks are kept here."""
        return self._best_ids.get(height) or self._final_ids.get(height)

    def _take_snapshot(self, page: feed.Snapshot) -> None:
        self.state.update({key_and_value[0]: key_and_value[1] for key_and_value in page.pairs})
        if page.last:
            self.final = self.best = self._remember(HEADER.decode(page.header), None, None)
            self._final_ids[self.final.header.number] = self.final.id

    def _take_reverse(self, frame: feed.Reverse) -> None:
        block = self._remember(HEADER.decode(frame.header), None, frame.block_id)
        height = block.header.number
        self._past_states.add(height, block.header.parent_hash, _changes_of(frame.changes))
        self._final_ids[height], self._final_ids[height - 1] = block.id, block.header.parent_hash

    def _take_block(self, frame: feed.ImportedBlock) -> None:
        header = HEADER.decode(frame.header)
        block = self._remember(header, tuple(frame.extrinsics), frame.block_id)
        self._unsettled.add(block.id, header.parent_hash, _changes_of(frame.changes))
        self.imported.publish(block)

    def _take_status(self, status: feed.NodeStatus) -> None:
        self.status = status
        best = self.blocks.get(status.accepted_id)
        if best is not None and (self.best is None or best.id != self.best.id):
            self._set_best(best)
        if self.final is not None and status.final_id != self.final.id:
            self._finalise(status.final_id)

    def _set_best(self, best: BlockRecord) -> None:
        """Set another best block, and report each block between it and the earlier best branch."""
        new_branch: list[BlockRecord] = []
        branch_block: BlockRecord | None = best
        while branch_block is not None and self.id_at(branch_block.header.number) != branch_block.id:
            new_branch.append(branch_block)
            branch_block = self.blocks.get(branch_block.header.parent_hash)
        for height in [height for height in self._best_ids if height > best.header.number]:
            del self._best_ids[height]
        self._best_ids.update({branch_block.header.number: branch_block.id for branch_block in new_branch})
        self.best = best
        for branch_block in new_branch[::-1] or [best]:
            self.new_best.publish(branch_block)

    def _finalise(self, final_id: bytes) -> None:
        """Move the final state up to `final_id`, and drop the branches that lost."""
        new_final_blocks = self._path_from_final(final_id)
        for block, changes in zip(
            new_final_blocks, self._unsettled.settle(block.id for block in new_final_blocks), strict=True
        ):
            height = block.header.number
            self._past_states.add(height, block.header.parent_hash, self.state.update(changes))
            self.final = block
            self._final_ids[height] = block.id
            self._best_ids.pop(height, None)
            self._kept_ids.append(block.id)
        for lost_id in self._unsettled.lay_anew(final_id):
            del self.blocks[lost_id]
        while len(self._kept_ids) > RECENT_BLOCKS:
            forgotten_block = self.blocks.pop(self._kept_ids.popleft(), None)
            if forgotten_block is not None:
                self._final_ids.pop(forgotten_block.header.number, None)
        for block in new_final_blocks:
            self.finalised.publish(block)

    def _path_from_final(self, block_id: bytes) -> list[BlockRecord]:
        path: list[BlockRecord] = []
        while self.final is not None and block_id != self.final.id:
            path.append(self.blocks[block_id])
            block_id = path[-1].header.parent_hash
        return path[::-1]

    def _remember(self, header: Header, extrinsics: tuple[bytes, ...] | None, known: bytes | None) -> BlockRecord:
        block = BlockRecord(known or block_id(header), header, extrinsics)
        self.blocks[block.id] = block
        return block


def _changes_of(key_value_pairs: list[list[bytes | None]]) -> Changes:
    return {key: value for key, value in key_value_pairs if key is not None}
