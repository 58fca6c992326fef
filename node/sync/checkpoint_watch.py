"""Detection of a checkpoint that the network contradicts, with a warning for the operator.

Invariant: a contradiction decides nothing, because an attacker with another history contradicts a right checkpoint too.
The node asks a few peers at a time for the block, and others in place of silent ones. Silence is no contradiction: the
node warns of it only when most of several peers stayed silent. It logs each of the two once a minute at most.
"""

from __future__ import annotations

import logging
from collections import OrderedDict

from node.ledger.chain import Chain
from node.peers.messages import GetBlocks, PeerStatus
from node.sync.waiting_blocks import Peer

ASKED_MAX = 8
"""Open questions at a time."""
PATIENCE_MS = 10_000
"""The time for a peer to send the block; after it another peer may be asked."""
SILENT_MIN = 3
"""Silent peers before a warning. Peer names are free, and a single peer could otherwise alarm every operator."""
SILENT_KEPT_MAX = 1_024
AGAIN_MS = 60_000
_LOG = logging.getLogger("node")


class CheckpointWatch:
    """A watch of one node's checkpoint until its final chain has reached it."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._open_questions: dict[Peer, int] = {}
        self._silent_peers: OrderedDict[Peer, None] = OrderedDict()
        self._is_seen = False
        self._told_ms: dict[int, int] = {}

    def question(self, peer: Peer, status: PeerStatus, now_ms: int) -> GetBlocks | None:
        """Return the question to a peer that claims to be past the checkpoint; None if there is none."""
        checkpoint = self._chain.rules.checkpoint
        if checkpoint is None or self._is_seen or self._is_reached() or status.final_height < checkpoint.height:
            return None
        self._give_up(now_ms)
        if peer in self._open_questions or peer in self._silent_peers or len(self._open_questions) >= ASKED_MAX:
            return None
        self._open_questions[peer] = now_ms
        return GetBlocks(checkpoint.id, checkpoint.height - 1)

    def takes(self, peer: Peer, request: GetBlocks, block_id: bytes) -> bool:
        """Return True if an answer's first block answers this watch's question and is not for the tree yet."""
        checkpoint = self._chain.rules.checkpoint
        if checkpoint is None or block_id != checkpoint.id:
            return False
        self._is_seen = True
        is_asked = peer in self._open_questions or peer in self._silent_peers
        self._open_questions.pop(peer, None)
        return is_asked and request == GetBlocks(checkpoint.id, checkpoint.height - 1)

    def on_other(self, block_id: bytes, source: str, now_ms: int) -> None:
        """Warn that `source` has another block at the checkpoint's height."""
        reason = f"the network contradicts it: {source} has 0x{block_id.hex()} at that height"
        self._report_problem(
            logging.ERROR, f"{reason}. The checkpoint is wrong, or these peers follow another history", now_ms
        )

    def look(self, now_ms: int) -> None:
        """Warn if several peers ran out of time and most of the asked peers did not send the block."""
        if self._is_seen or self._is_reached():
            return
        self._give_up(now_ms)
        silent_count = len(self._silent_peers)
        if silent_count >= SILENT_MIN and silent_count > len(self._open_questions):
            reason = f"{silent_count} peers that claim a higher block did not send the checkpoint's block"
            self._report_problem(logging.WARNING, f"{reason}. They are slow or lie, or the checkpoint is wrong", now_ms)

    def _give_up(self, now_ms: int) -> None:
        """Free the places of peers that ran out of time."""
        for peer in [peer for peer, asked_ms in self._open_questions.items() if now_ms >= asked_ms + PATIENCE_MS]:
            del self._open_questions[peer]
            self._silent_peers[peer] = None
        while len(self._silent_peers) > SILENT_KEPT_MAX:
            self._silent_peers.popitem(last=False)

    def _is_reached(self) -> bool:
        checkpoint = self._chain.rules.checkpoint
        return checkpoint is None or self._chain.final.facts.height >= checkpoint.height

    def _report_problem(self, level: int, reason: str, now_ms: int) -> None:
        # Each level has its own minute: otherwise three silent strangers would hide a contradiction.
        checkpoint, told_ms = self._chain.rules.checkpoint, self._told_ms.get(level)
        if checkpoint is None or (told_ms is not None and now_ms < told_ms + AGAIN_MS):
            return
        self._told_ms[level] = now_ms
        _LOG.log(
            level,
            "--checkpoint %d:0x%s: %s. Compare it with a second source, then start again with the right one, or with "
            "other --bootnodes",
            checkpoint.height, checkpoint.id.hex(), reason,
        )  # fmt: skip
