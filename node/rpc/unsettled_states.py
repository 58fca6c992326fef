"""States after blocks above the final one: what each changed, over its parent's.

What always holds: the layers below a state are at most a `JOINED`-th of the blocks between it and the final one, and
`JOINED` more: while finality stands still, reads do not become slower with every block.
"""

from __future__ import annotations

from collections.abc import Iterable

from node.ledger.layers import DiffLayer
from runtime.state.overlay import Changes, StateReader

JOINED = 16  # blocks


class UnsettledStates:
    """By block id."""

    def __init__(self, final: StateReader) -> None:
        """`final` is the state after the last final block, always."""
        self._final = final
        self._readers: dict[bytes, StateReader] = {}
        self._blocks: dict[bytes, tuple[bytes, Changes]] = {}  # parent, and what the block changed there
        self._depths: dict[bytes, int] = {}

    def get(self, block_id: bytes) -> StateReader | None:
        """The state after a block."""
        return self._readers.get(block_id)

    def written(self, block_id: bytes) -> Changes | None:
        """Return a block's writes, unchanged values included; None for an unknown block."""
        block = self._blocks.get(block_id)
        return None if block is None else block[1]

    def add(self, block_id: bytes, parent_id: bytes, changes: Changes) -> None:
        """A block whose parent is the final one unless it is known here."""
        self._blocks[block_id] = (parent_id, changes)
        depth = self._depths[block_id] = self._depths.get(parent_id, 0) + 1
        if depth % JOINED:
            self._readers[block_id] = DiffLayer(self._readers.get(parent_id, self._final), changes)
            return
        stretch = [changes]
        while len(stretch) < JOINED:
            parent_id, earlier = self._blocks[parent_id]
            stretch.append(earlier)
        joined: dict[bytes, bytes | None] = {}
        for earlier in reversed(stretch):
            joined.update(earlier)
        self._readers[block_id] = DiffLayer(self._readers.get(parent_id, self._final), joined)

    def settle(self, path: Iterable[bytes]) -> list[Changes]:
        """Blocks that became final, parents first: what they changed; they are no longer known here."""
        return [self._blocks.pop(block_id)[1] for block_id in path]

    def lay_anew(self, final_id: bytes) -> list[bytes]:
        """Put what is left over the new final state; the ids of those that do not descend from it, forgotten here."""
        blocks, self._blocks = self._blocks, {}
        self._readers.clear()
        self._depths.clear()
        lost: list[bytes] = []
        # Parents first: a block whose parent neither is final nor survived lies on a branch that lost.
        for block_id, (parent_id, changes) in blocks.items():
            if parent_id == final_id or parent_id in self._blocks:
                self.add(block_id, parent_id, changes)
            else:
                lost.append(block_id)
        return lost
