"""The heart of a validator's node: once an epoch it says for each of its candidates that it is there.

Invariant: it beats for blocks that are final here and new, and no more than a few times an
epoch, until the final chain has heard it.
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
"""In an epoch at most: a beat may be lost, or come to no author in time."""
_LOG = logging.getLogger(__name__)


TIP_SLOTS = 20
"""How old a final block may be, beside what an idle chain waits for its next one; finality takes some slots."""


def is_at_tip(chain: Chain, final: BlockFacts, now_ms: int) -> bool:
    """Whether a final block is as new as the newest one of a chain that goes on, and not below the checkpoint."""
    parameters, checkpoint = chain.parameters, chain.rules.checkpoint
    is_new = now_ms // parameters.slot_ms - final.slot <= TIP_SLOTS + 3 * parameters.heartbeat_slots
    # Who leads a node to another history gives its blocks whatever slots it likes.
    return is_new and (checkpoint is None or final.height >= checkpoint.height)


class Heart(Listener):
    """Beats for the session keys of one node."""

    def __init__(self, chain: Chain, pool: HeartbeatPool, sessions: Mapping[bytes, SigningKey], clock: Clock) -> None:
        """`sessions` are the session keys that this node holds now, whether they sit or not."""
        self._chain = chain
        self._pool = pool
        self._sessions = sessions
        self._clock = clock
        self._next = 0

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Beat when the block before an epoch is final, or one of it, and again in each further part of it."""
        final = blocks[-1]
        parameters = self._chain.parameters
        if final.facts.height < self._next or not is_at_tip(self._chain, final.facts, self._clock.now_ms()):
            return
        epoch = parameters.epoch_of(final.facts.height + 1)
        self._next = min(final.facts.height + max(1, parameters.epoch_blocks // BEATS), parameters.boundary(epoch))
        stake = self._chain.runtime.at(final.state)[TrustStake]
        for session, key in self._sessions.items():
            stash = stake.key_owner[session]
            candidate = stake.candidates[stash] if stash is not None else None
            if stash is None or candidate is None or candidate.session_key != session:
                continue
            if not stake.was_on_line(stash, epoch):
                self._beat(SeenFinal(stash, final.facts.height, final.facts.id), key)

    def _beat(self, seen: SeenFinal, key: SigningKey) -> None:
        signature = key.sign_unrecorded(heartbeat_payload(self._chain.genesis, seen))
        try:
            self._pool.submit(Heartbeat(seen, signature))
        except PoolRefusalError as refusal:
            _LOG.debug("no heartbeat: %s", refusal)
