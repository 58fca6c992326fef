"""The chain as the RPC process knows it: a copy of the final state, and what came before and after it.

Fed with the node's frames, in order, by `apply`. What always holds:

* `state` is the state after block `final`; every block above it has its ancestors here, down to `final`;
* a block below `final` can be read while it is one of the last `REVERSES` final ones, and not afterwards;
* after each frame the broadcasts have told of every new block, best block and final block, parents first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from sortedcontainers import SortedDict

from node.feed import messages as feed
from node.ledger.layers import DiffLayer
from node.rpc.broadcast import Publisher
from runtime.blocks.block import HEADER, Header, block_id
from runtime.state.overlay import Changes, StateReader

REVERSES = 256
RECENT_BLOCKS = 1024


class UnknownBlockError(LookupError):
    """No block of this id is known, or its state is no longer kept."""


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """A block with its decoded header; `extrinsics` is None where only the header is here."""

    id: bytes
    header: Header
    extrinsics: tuple[bytes, ...] | None


class FinalState:
    """The values after the last final block: a `StateReader` that `update` moves on."""

    def __init__(self) -> None:
        """An empty state."""
        self._values: SortedDict[bytes, bytes] = SortedDict()

    def get(self, key: bytes, /) -> bytes | None:
        """The value under `key`."""
        value: bytes | None = self._values.get(key)
        return value

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """The keys that begin with `prefix` and come after `start`, ascending."""
        for key in self._values.irange(max(prefix, start)):
            if not key.startswith(prefix):
                return
            if key > start or not start:
                yield key

    def update(self, changes: Changes) -> Changes:
        """Apply `changes`; give what undoes them."""
        undo: dict[bytes, bytes | None] = {}
        for key, value in changes.items():
            undo[key] = self._values.get(key)
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
        return undo


class Replica:
    """See the module's docstring; the attributes may be read, only `apply` writes them."""

    def __init__(self) -> None:
        """Empty until the node has sent everything up to its first `Status`."""
        self.hello: feed.FeedHello | None = None
        self.status: feed.NodeStatus | None = None
        self.final: BlockRecord | None = None
        self.best: BlockRecord | None = None
        self.state = FinalState()
        self.blocks: dict[bytes, BlockRecord] = {}
        self.imported: Publisher[BlockRecord] = Publisher()
        self.new_best: Publisher[BlockRecord] = Publisher()
        self.finalised: Publisher[BlockRecord] = Publisher()
        self.extrinsic_statuses: Publisher[feed.ExtrinsicStatus] = Publisher()
        self._readers: dict[bytes, DiffLayer] = {}
        self._reverses: deque[tuple[BlockRecord, Changes]] = deque(maxlen=REVERSES)
        self._old: deque[bytes] = deque()

    @property
    def is_ready(self) -> bool:
        """Whether the replica has caught up with the node once."""
        return self.status is not None

    def apply(self, frame: feed.ToRpc) -> None:
        """Take the node's next frame."""
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
                self.extrinsic_statuses.publish(frame)
            case _:
                raise feed.FeedError(f"{type(frame).__name__} is an answer, not news")

    def reader(self, block_id: bytes) -> StateReader:
        """The state after a block; `UnknownBlockError` if it is not kept."""
        if self.final is not None and block_id == self.final.id:
            return self.state
        if block_id in self._readers:
            return self._readers[block_id]
        reader: StateReader = self.state
        for block, changes in self._reverses:
            reader = DiffLayer(reader, changes)
            if block.header.parent_hash == block_id:
                return reader
        raise UnknownBlockError("State already discarded" if block_id in self.blocks else "Header was not found")

    def ancestor(self, block_id: bytes, height: int) -> bytes | None:
        """The id at `height` on the way down from `block_id`, as far as blocks are kept here."""
        block = self.blocks.get(block_id)
        while block is not None and block.header.number > height:
            if block.header.number == height + 1:
                return block.header.parent_hash
            block = self.blocks.get(block.header.parent_hash)
        return block.id if block is not None and block.header.number == height else None

    def _take_snapshot(self, page: feed.Snapshot) -> None:
        self.state.update({pair[0]: pair[1] for pair in page.pairs})
        if page.last:
            self.final = self.best = self._remember(HEADER.decode(page.header), None, None)

    def _take_reverse(self, frame: feed.Reverse) -> None:
        block = self._remember(HEADER.decode(frame.header), None, frame.block_id)
        self._reverses.append((block, _changes(frame.changes)))

    def _take_block(self, frame: feed.ImportedBlock) -> None:
        header = HEADER.decode(frame.header)
        block = self._remember(header, tuple(frame.extrinsics), frame.block_id)
        self._readers[block.id] = DiffLayer(self.reader(header.parent_hash), _changes(frame.changes))
        self.imported.publish(block)

    def _take_status(self, status: feed.NodeStatus) -> None:
        self.status = status
        if self.final is not None and status.final_id != self.final.id:
            self._finalise(status.final_id)
        best = self.blocks.get(status.accepted_id)
        if best is not None and (self.best is None or best.id != self.best.id):
            self.best = best
            self.new_best.publish(best)

    def _finalise(self, final_id: bytes) -> None:
        """Move the final state up to `final_id` and forget the branches that lost."""
        for block in self._path_from_final(final_id):
            undo = self.state.update(self._readers.pop(block.id).changes)
            self._reverses.appendleft((block, undo))
            self.final = block
            self._old.append(block.id)
            self.finalised.publish(block)
        # Parents first: a block whose parent neither is final nor survived lies on a branch that lost.
        not_final = dict(self._readers)
        self._readers.clear()
        for above_id, layer in not_final.items():
            parent = self.blocks[above_id].header.parent_hash
            if parent == final_id:
                self._readers[above_id] = DiffLayer(self.state, layer.changes)
            elif parent in self._readers:
                self._readers[above_id] = DiffLayer(self._readers[parent], layer.changes)
            else:
                del self.blocks[above_id]
        while len(self._old) > RECENT_BLOCKS:
            self.blocks.pop(self._old.popleft(), None)

    def _path_from_final(self, block_id: bytes) -> list[BlockRecord]:
        path: list[BlockRecord] = []
        while self.final is not None and block_id != self.final.id:
            path.append(self.blocks[block_id])
            block_id = path[-1].header.parent_hash
        return path[::-1]

    def _remember(self, header: Header, extrinsics: tuple[bytes, ...] | None, known_id: bytes | None) -> BlockRecord:
        block = BlockRecord(known_id or block_id(header), header, extrinsics)
        self.blocks[block.id] = block
        return block


def _changes(pairs: list[list[bytes | None]]) -> Changes:
    return {key: value for key, value in pairs if key is not None}
