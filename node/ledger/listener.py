"""Notifications about blocks: to the pool, the feed, the figures, the log.

Invariant: a listener is called after the event, inside the loop's turn, and must not wait.
"""

from __future__ import annotations

from node.ledger.chain import ExecutedBlock
from node.p2p.frames import FrameKind


class Listener:
    """A listener without reactions; subclasses override the events that they need."""

    def on_imported(self, block: ExecutedBlock) -> None:
        """A valid block was added to the tree."""

    def on_tip(self, block: bytes) -> None:
        """The preferred tip changed."""

    def on_accepted(self, block: bytes, *, reverted: bool) -> None:
        """The accepted tip changed; `reverted` means that finality overruled the previous one."""

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """These blocks, oldest first, are final and on the disk."""

    def on_offence(self, author: bytes, slot: int, first: bytes, second: bytes) -> None:
        """An author sealed two headers (encoded) for one slot."""

    def on_evidence(self, accused: bytes, evidence: bytes) -> None:
        """A session key voted or proposed twice in one round; the evidence (encoded) proves it."""

    def on_gossip(self, kind: FrameKind, payload: bytes, peer: str) -> None:
        """A peer sent an extrinsic, an attestation, a heartbeat or evidence."""
