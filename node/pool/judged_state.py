"""The state on which a pool judges messages: the best block's, bound once for many of them.

Invariant: the pool never writes to the state. It is bound again at a new best block, and after `READS_MAX` messages:
values that strangers' messages read stay in its memory.
"""

from __future__ import annotations

from collections.abc import Callable

from node.ledger.chain import Chain, ExecutedBlock
from runtime.frame.runtime import Bound

READS_MAX = 4_096


class JudgedState:
    """The best block of one node, as one pool reads it."""

    def __init__(self, chain: Chain, best_block_id: Callable[[], bytes]) -> None:
        """Create it; `best_block_id` returns the id of the block on whose state messages are judged."""
        self._chain = chain
        self._best_block_id = best_block_id
        self._bound_state: Bound | None = None
        self._bound_block_id = b""
        self._reads = 0

    def block(self) -> ExecutedBlock:
        """Return the best block, or the final one if the tree no longer holds the best."""
        return self._chain.get(self._best_block_id()) or self._chain.final

    def block_id(self) -> bytes:
        """Return the block's id."""
        return self.block().facts.id

    def bound(self) -> Bound:
        """Return the pallets over the block's state, for reading only."""
        block = self.block()
        if self._bound_state is None or self._bound_block_id != block.facts.id or self._reads >= READS_MAX:
            self._bound_state, self._bound_block_id, self._reads = (
                self._chain.runtime.at(block.state),
                block.facts.id,
                0,
            )
        self._reads += 1
        return self._bound_state
