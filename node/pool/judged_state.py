"""The state on which a pool judges messages: that of the best block, bound once for many of them.

Invariant: the pool never writes to it. It is renewed with the best block, and after `READS_MAX` messages, because reads
on behalf of strangers stay in its memory.
"""

from __future__ import annotations

from collections.abc import Callable

from node.ledger.chain import Chain, ExecutedBlock
from runtime.frame.runtime import Bound

READS_MAX = 4_096


class JudgedState:
    """The best block of one node, as one pool reads it."""

    def __init__(self, chain: Chain, best: Callable[[], bytes]) -> None:
        """`best` names the block on whose state messages are judged."""
        self._chain = chain
        self._best = best
        self._bound: Bound | None = None
        self._of = b""
        self._reads = 0

    def block(self) -> ExecutedBlock:
        """Return the best block, or the final one if the best is gone."""
        return self._chain.get(self._best()) or self._chain.final

    def block_id(self) -> bytes:
        """Return the block's id."""
        return self.block().facts.id

    def bound(self) -> Bound:
        """Return the pallets over its state, for reading only."""
        block = self.block()
        if self._bound is None or self._of != block.facts.id or self._reads >= READS_MAX:
            self._bound, self._of, self._reads = self._chain.runtime.at(block.state), block.facts.id, 0
        self._reads += 1
        return self._bound
