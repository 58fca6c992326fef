"""Whether a node has caught up: what it may do only then, it does not do for a past that it is still reading."""

from __future__ import annotations

from consensus.events import BlockFacts
from node.ledger.chain import Chain

TIP_SLOTS = 20
"""How old a final block may be, beside what an idle chain waits for its next one; finality takes some slots."""


def is_at_tip(chain: Chain, final: BlockFacts, now_ms: int) -> bool:
    """Whether a final block is as new as the newest one of a chain that goes on, and not below the checkpoint."""
    parameters, checkpoint = chain.parameters, chain.rules.checkpoint
    is_new = now_ms // parameters.slot_ms - final.slot <= TIP_SLOTS + 3 * parameters.heartbeat_slots
    # Who leads a node to another history gives its blocks whatever slots it likes.
    return is_new and (checkpoint is None or final.height >= checkpoint.height)
