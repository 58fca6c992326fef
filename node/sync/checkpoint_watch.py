"""Detection of a checkpoint that the network contradicts, with a warning for the operator.

Always: a contradiction decides nothing, because an attacker with another history contradicts a right checkpoint too.
The node asks a few peers for the block, each once. It logs the warning once a minute at most.
"""

from __future__ import annotations

import logging

from node.ledger.chain import Chain
from node.peers.messages import GetBlocks, PeerStatus
from node.sync.waiting import Peer

ASKED_MAX = 8
PATIENCE_MS = 10_000
"""How long peers may take to send the block."""
AGAIN_MS = 60_000
_LOG = logging.getLogger("node")


class CheckpointWatch:
    """Watches the checkpoint of one node until its final chain has reached it."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._asked: dict[Peer, int] = {}
        self._open: set[Peer] = set()
        self._is_seen = False
        self._told_ms: int | None = None

    def question(self, peer: Peer, status: PeerStatus, now_ms: int) -> GetBlocks | None:
        """Return the question to a peer that claims to be past the checkpoint; None if there is none."""
        checkpoint = self._chain.rules.checkpoint
        if checkpoint is None or self._is_seen or self._is_reached() or status.final_height < checkpoint.height:
            return None
        if peer in self._asked or len(self._asked) >= ASKED_MAX:
            return None
        self._asked[peer] = now_ms
        self._open.add(peer)
        return GetBlocks(checkpoint.id, checkpoint.height - 1)

    def takes(self, peer: Peer, request: GetBlocks, block_id: bytes) -> bool:
        """Tell whether an answer's first block answers this watch's question, and is not for the tree yet."""
        checkpoint = self._chain.rules.checkpoint
        if checkpoint is None or block_id != checkpoint.id:
            return False
        self._is_seen = True
        is_own = peer in self._open and request == GetBlocks(checkpoint.id, checkpoint.height - 1)
        self._open.discard(peer)
        return is_own

    def on_other(self, block_id: bytes, source: str, now_ms: int) -> None:
        """Warn that `source` has another block at the checkpoint's height."""
        self._tell(f"{source} has 0x{block_id.hex()} at that height", now_ms)

    def look(self, now_ms: int) -> None:
        """Warn if the asked peers had their time and none sent the block."""
        if self._is_seen or self._is_reached():
            return
        silent = sum(now_ms >= asked_ms + PATIENCE_MS for asked_ms in self._asked.values())
        if silent:
            self._tell(f"{silent} peers that say they are past that height did not send the block", now_ms)

    def _is_reached(self) -> bool:
        checkpoint = self._chain.rules.checkpoint
        return checkpoint is None or self._chain.final.facts.height >= checkpoint.height

    def _tell(self, why: str, now_ms: int) -> None:
        checkpoint = self._chain.rules.checkpoint
        if checkpoint is None or (self._told_ms is not None and now_ms < self._told_ms + AGAIN_MS):
            return
        self._told_ms = now_ms
        _LOG.error(
            "the network contradicts --checkpoint %d:0x%s: %s. The checkpoint is wrong, or these peers follow another "
            "history. Compare it with a second source, then start again with the right one, or with other --bootnodes",
            checkpoint.height, checkpoint.id.hex(), why,
        )  # fmt: skip
