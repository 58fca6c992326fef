"""Who is told what happened to blocks: the pool, the feed, the figures, the log.

Invariant: a listener is told after the fact, inside the loop's turn, and must not wait.
"""

from __future__ import annotations

from node.ledger.chain import ExecutedBlock
from node.p2p.frames import FrameKind


class Listener:
    """Does nothing about anything; listeners override what they care for."""

    def on_imported(self, block: ExecutedBlock) -> None:
        """A valid block was added to the tree."""

    def on_tip(self, block: bytes) -> None:
        """The preferred tip is another one."""

    def on_accepted(self, block: bytes, *, reverted: bool) -> None:
        """The accepted tip is another one; `reverted`: finality overruled the one before."""

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """These blocks, oldest first, are final and on the disk."""

    def on_offence(self, author: bytes, slot: int, first: bytes, second: bytes) -> None:
        """Two sealed headers (encoded) of one author and slot."""

    def on_evidence(self, accused: bytes, evidence: bytes) -> None:
        """A session key voted or proposed twice in one round; the evidence (encoded) proves it."""

    def on_gossip(self, kind: FrameKind, payload: bytes, peer: str) -> None:
        """A peer sent an extrinsic, an attestation, a heartbeat or evidence."""
