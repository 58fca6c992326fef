"""The heart of a validator's node: it sends a heartbeat for each of its candidates once an epoch.

Invariant: it sends heartbeats only for new final blocks, at most `BEATS` times an epoch, until the final chain holds
one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from consensus.events import BlockFacts
from node.clock import Clock
from node.duty.signing_key import SigningKey
from node.ledger.chain import Chain, ExecutedBlock
from node.ledger.listener import Listener
from node.pool.heartbeat_pool import HeartbeatPool
from node.pool.refusal import PoolRefusalError
from runtime.pallets.im_online import Heartbeat, SeenFinal, heartbeat_payload
from runtime.pallets.staking.trust_stake import TrustStake

BEATS = 4
"""The most heartbeats in an epoch. A heartbeat may be lost, or reach no author in time."""
_LOG = logging.getLogger(__name__)


TIP_SLOTS = 20
"""The most slots between a final block and the present, beyond the pause of an idle chain. Finality takes some slots.
"""


def is_at_tip(chain: Chain, final: BlockFacts, now_ms: int) -> bool:
    """Return True if a final block is recent and not below the trusted checkpoint."""
    parameters, checkpoint = chain.parameters, chain.rules.checkpoint
    is_new = now_ms // parameters.slot_ms - final.slot <= TIP_SLOTS + 3 * parameters.heartbeat_slots
    # An attacker that leads the node to another history chooses the slots of its blocks freely.
    return is_new and (checkpoint is None or final.height >= checkpoint.height)


class Heart(Listener):
    """The heartbeats of one node's session keys."""

    def __init__(
        self, chain: Chain, heartbeat_pool: HeartbeatPool, sessions: Mapping[bytes, SigningKey], clock: Clock
    ) -> None:
        """Create the heart; `sessions` is the live table of all session keys of this node, seated or not."""
        self._chain = chain
        self._heartbeat_pool = heartbeat_pool
        self._sessions = sessions
        self._clock = clock
        self._next_height = 0

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Send heartbeats at the start of an epoch, and again in each further part of it."""
        block = blocks[-1]
        parameters = self._chain.parameters
        if block.facts.height < self._next_height or not is_at_tip(self._chain, block.facts, self._clock.now_ms()):
            return
        next_epoch = parameters.epoch_of(block.facts.height + 1)
        self._next_height = min(
            block.facts.height + max(1, parameters.epoch_blocks // BEATS), parameters.boundary(next_epoch)
        )
        stake = self._chain.runtime.at(block.state)[TrustStake]
        for session, key in self._sessions.items():
            owner_stash = stake.key_owner[session]
            candidate = stake.candidates[owner_stash] if owner_stash is not None else None
            # Only the candidate's current key can sign for it: the pool checks a heartbeat against that key.
            if owner_stash is None or candidate is None or candidate.session_key != session:
                continue
            if not stake.was_on_line(owner_stash, next_epoch):
                self._send_heartbeat(SeenFinal(owner_stash, block.facts.height, block.facts.id), key)

    def _send_heartbeat(self, seen_final: SeenFinal, key: SigningKey) -> None:
        signature = key.sign_unrecorded(heartbeat_payload(self._chain.genesis, seen_final))
        try:
            self._heartbeat_pool.submit(Heartbeat(seen_final, signature))
        except PoolRefusalError as refusal:
            _LOG.debug("no heartbeat: %s", refusal)
