"""The blocks above the last final one, and their ancestry.

Invariant: every block here descends from `final`, which is here too. Children keep the order in which they were added.
The size is bounded: headers run ahead of finality only so far (`final_lag_max`), and a proposer gets few headers per
slot.
"""

from collections.abc import Iterable

from consensus.events import BlockFacts

PAST_MAX = 4096


class BlockTree:
    """Facts by block id, and children by parent."""

    def __init__(self, final_block: BlockFacts) -> None:
        """Start with a final block alone."""
        self.final = final_block
        self.blocks: dict[bytes, BlockFacts] = {final_block.id: final_block}
        self.children: dict[bytes, list[bytes]] = {final_block.id: []}
        self._past: dict[bytes, None] = {}

    def __contains__(self, block_id: bytes) -> bool:
        """Return True if the block is known and descends from the final one."""
        return block_id in self.blocks

    def __getitem__(self, block_id: bytes) -> BlockFacts:
        """Return the facts of a known block."""
        return self.blocks[block_id]

    def add(self, facts: BlockFacts) -> bool:
        """Add a block. Return False if it is known or does not descend from the final block."""
        if facts.id in self.blocks or facts.parent not in self.blocks:
            return False
        self.blocks[facts.id] = facts
        self.children[facts.id] = []
        self.children[facts.parent].append(facts.id)
        return True

    def is_past(self, block_id: bytes) -> bool:
        """Return True if a recent block was known once and is either below the final one or dead."""
        return block_id in self._past

    def ancestor_at(self, block: bytes, height: int) -> bytes:
        """Return the ancestor of a block at a height between the height of `final` and its own."""
        facts = self.blocks[block]
        while facts.height > height:
            facts = self.blocks[facts.parent]
        return facts.id

    def descends(self, block_id: bytes, ancestor: bytes) -> bool:
        """Return True if `block_id` is `ancestor` or one of its descendants. Both are known."""
        return self.ancestor_at(block_id, self.blocks[ancestor].height) == ancestor

    def is_related(self, block_id: bytes, other: bytes) -> bool:
        """Return True if two known blocks are equal or one descends from the other."""
        if self.blocks[block_id].height >= self.blocks[other].height:
            return self.descends(block_id, other)
        return self.descends(other, block_id)

    def path(self, ancestor: bytes, block_id: bytes) -> tuple[bytes, ...]:
        """Return the blocks after `ancestor` up to `block_id`, oldest first."""
        descendants = []
        while block_id != ancestor:
            descendants.append(block_id)
            block_id = self.blocks[block_id].parent
        return tuple(reversed(descendants))

    def finalise(self, block: bytes) -> tuple[bytes, ...]:
        """Make a known block final and drop all blocks that conflict. Return the newly final blocks, oldest first."""
        assert self.blocks[block].height >= self.final.height, "the final height never falls"
        path = self.path(self.final.id, block)
        remaining = [block]
        # The list grows while it is read: a walk without recursion, however deep the tree.
        for descendant in remaining:
            remaining.extend(self.children[descendant])
        kept_facts = {identity: self.blocks[identity] for identity in remaining}
        self._remember(identity for identity in self.blocks if identity not in kept_facts)
        self.blocks = kept_facts
        self.children = {identity: self.children[identity] for identity in remaining}
        self.final = self.blocks[block]
        return path

    def _remember(self, removed_ids: Iterable[bytes]) -> None:
        # Peers still mention these blocks for a moment. Without this memory every dead block would be fetched again.
        self._past.update(dict.fromkeys(removed_ids))
        for oldest in list(self._past)[: max(0, len(self._past) - PAST_MAX)]:
            del self._past[oldest]
